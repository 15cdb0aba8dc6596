// result.json: what a run measured, as a worker or a program of somebody else wrote it.
#include "results/run_result.h"

#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace optrush;
  fuzz::feed([&] {
    const RunResult result =
        run_result_from_json(parse_json(fuzz::text_of(data, size), "input"), "result.json");
    const Curve curve = result.curve();
    fuzz::hold(curve.losses.size() == result.steps.size() && curve.norms.size() == result.steps.size(),
               "the curve has a point for each step");
    fuzz::hold(result.timed_tokens() >= 0, "no step has a negative number of tokens");
    // Without gradient norms another program's run is sound, but not a worker's.
    if (unhealthy(result, TrainedBy::worker).empty())
      fuzz::hold(unhealthy(result, TrainedBy::other_program).empty(), "a worker's sound run is sound");
    fuzz::hold(!to_string(result.status).empty(), "a status has a name");
  });
  return 0;
}
