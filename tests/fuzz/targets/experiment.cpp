// experiment.json: the experiment of a script, read by reports and --resume.
#include "experiment/experiment.h"

#include "target.h"

FUZZ_TARGET(experiment) {
  using namespace optrush;
  fuzz::feed_document(fuzz::text_of(data, size), [](const Json& json) {
    return to_json(experiment_from_json(json, "experiment.json"));
  });
  return 0;
}
