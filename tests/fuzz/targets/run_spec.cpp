// spec.json: the run of a worker.
#include "spec/spec_json.h"
#include "target.h"

FUZZ_TARGET(run_spec) {
  using namespace optrush;
  fuzz::feed_document(fuzz::text_of(data, size),
                      [](const Json& json) { return to_json(run_spec_from_json(json, "spec.json")); });
  return 0;
}
