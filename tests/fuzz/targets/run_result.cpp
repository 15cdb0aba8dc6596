// result.json: the result of a run, from a worker or an external program.
#include "results/result_text.h"

#include "target.h"

FUZZ_TARGET(run_result) {
  using namespace optrush;
  fuzz::feed([&] {
    const std::string text = fuzz::text_of(data, size);
    const RunResult result = run_result_from_text(text, "result.json");
    fuzz::hold(to_json(run_result_from_json(parse_json(text, "input"), "result.json")) == to_json(result),
               "the text says what its document says");
    const Curve curve = result.curve();
    fuzz::hold(curve.losses.size() == result.steps.size() && curve.norms.size() == result.steps.size(),
               "the curve has a point for each step");
    fuzz::hold(result.timed_tokens() >= 0, "no step has a negative number of tokens");
    // An external program need not report gradient norms. A worker must.
    if (unhealthy(result, TrainedBy::worker).empty())
      fuzz::hold(unhealthy(result, TrainedBy::other_program).empty(), "a worker's sound run is sound");
    fuzz::hold(!to_string(result.status).empty(), "a status has a name");
  });
  return 0;
}
