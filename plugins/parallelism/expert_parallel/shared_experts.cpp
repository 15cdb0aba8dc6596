#include "shared_experts.h"

#include <utility>

namespace optrush::expert_parallel {
void SharedExperts::find(const Unit& unit) {
  if (unit.role != UnitRole::mixture) return;
  for (const auto& child : unit.children)
    if (child->role == UnitRole::mlp) {
      units_.insert(child.get());
      of_layer_[unit.layer];
    }
}

UnitFunction SharedExperts::wrapped(UnitFunction inner, const Unit& unit) {
  const auto found = of_layer_.find(unit.layer);
  if (found == of_layer_.end()) return inner;
  if (unit.role == UnitRole::experts) return noting_input(std::move(inner), found->second);
  return units_.contains(&unit) ? computed_before(std::move(inner), found->second) : inner;
}

UnitFunction SharedExperts::noting_input(UnitFunction inner, Expert& expert) {
  return [&expert, inner = std::move(inner)](const Tensor& x, const Batch& batch) {
    expert.input = x;
    Tensor out = inner(x, batch);
    expert.input.reset();
    return out;
  };
}

UnitFunction SharedExperts::computed_before(UnitFunction inner, Expert& expert) {
  expert.function = inner;
  return [&expert, inner = std::move(inner)](const Tensor& x, const Batch& batch) {
    return expert.output.defined() ? std::exchange(expert.output, Tensor()) : inner(x, batch);
  };
}

void SharedExperts::compute(int64_t layer, const Batch& batch) {
  const auto found = of_layer_.find(layer);
  if (found == of_layer_.end() || !found->second.input.defined()) return;
  Expert& expert = found->second;
  expert.output = expert.function(expert.input, batch);
}
}  // namespace optrush::expert_parallel
