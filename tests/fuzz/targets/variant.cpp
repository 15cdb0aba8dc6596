// One entry of variants.json: a row of the report, with the command of an external rung.
#include "experiment/experiment.h"
#include "target.h"

FUZZ_TARGET(variant) {
  using namespace optrush;
  fuzz::feed_document(fuzz::text_of(data, size), [](const Json& json) {
    const Variant variant = variant_from_json(json, "variants.json");
    fuzz::hold(run_id(variant, variant.spec).find('/') == std::string::npos,
               "the folder of a run is one folder");
    return to_json(variant);
  });
  return 0;
}
