#include "results/tried.h"

namespace optrush {
static Record<TriedStack> record_of(const TriedStack*) {
  using S = TriedStack;
  return Record<S>("a stack of a search")
      .field("stack", &S::stack, {.required = true})
      .field("change", &S::change, {.required = true})
      .field("speed", &S::speed, {.required = true, .nullable = true})
      .field("rounds", &S::rounds)
      .field("faster", &S::faster)
      .field("result", &S::result, {.required = true})
      .open();
}

static Record<TriedStage> record_of(const TriedStage*) {
  using S = TriedStage;
  return Record<S>("a stage of a search")
      .field("reference", &S::reference, {.required = true})
      .field("stacks", &S::stacks, {.required = true})
      .open();
}

Record<Tried> record_of(const Tried*) {
  return Record<Tried>("a search")
      .field("schema_version", &Tried::schema_version)
      .field("best", &Tried::best, {.required = true})
      .field("finished", &Tried::finished, {.required = true})
      .field("answered", &Tried::answered)
      .field("decides_s", &Tried::decides_s, {.nullable = true})
      .field("stages", &Tried::stages, {.required = true})
      .open();
}
}  // namespace optrush
