#include "results/tried.h"

#include "optrush/error.h"
#include "spec/record.h"

namespace optrush {
static const Record<TriedStack>& record_of(const TriedStack*) {
  using S = TriedStack;
  static const auto record = Record<S>("a stack of a search")
                                 .field("stack", &S::stack, {.required = true})
                                 .field("change", &S::change, {.required = true})
                                 .field("speed", &S::speed, {.required = true, .nullable = true})
                                 .field("rounds", &S::rounds)
                                 .field("faster", &S::faster)
                                 .field("result", &S::result, {.required = true})
                                 .open();
  return record;
}

static const Record<TriedStage>& record_of(const TriedStage*) {
  using S = TriedStage;
  static const auto record = Record<S>("a stage of a search")
                                 .field("reference", &S::reference, {.required = true})
                                 .field("stacks", &S::stacks, {.required = true})
                                 .open();
  return record;
}

static const Record<Tried>& tried_record() {
  static const auto record = Record<Tried>("a search")
                                 .field("schema_version", &Tried::schema_version)
                                 .field("best", &Tried::best, {.required = true})
                                 .field("finished", &Tried::finished, {.required = true})
                                 .field("answered", &Tried::answered)
                                 .field("decides_s", &Tried::decides_s, {.nullable = true})
                                 .field("stages", &Tried::stages, {.required = true})
                                 .open();
  return record;
}

Json to_json(const std::optional<Tried>& tried) { return tried ? tried_record().write(*tried) : Json(); }

std::optional<Tried> tried_from_json(const Json& json, const std::string& where) {
  if (json.is_null()) return std::nullopt;
  return tried_record().read(json, where);
}
}  // namespace optrush
