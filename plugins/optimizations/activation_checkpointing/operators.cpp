#include "operators.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <type_traits>

namespace optrush::checkpointing {
namespace {
void add_tensor(Tensors& found, const Tensor& tensor) { found.push_back(tensor); }
void add_tensor(Tensors& found, const DeltaRuleInputs& in) {
  found.insert(found.end(), {in.q, in.k, in.v, in.log_decay, in.beta});
}
template <class Other>
void add_tensor(Tensors&, const Other&) {}

Tensors as_tensors(Tensor out) { return {std::move(out)}; }
Tensors as_tensors(std::array<Tensor, 2> out) { return {std::move(out[0]), std::move(out[1])}; }
Tensors as_tensors(AttentionOut out) { return {std::move(out.out), std::move(out.lse)}; }

template <class Result>
Result from_tensors(Tensors tensors) {
  if constexpr (std::is_same_v<Result, Tensor>)
    return std::move(tensors.at(0));
  else
    return Result{std::move(tensors.at(0)), std::move(tensors.at(1))};
}

template <class Result, class... Arguments>
std::function<Result(Arguments...)> watched(std::function<Result(Arguments...)> inner, std::string slot,
                                            Operators::Block& block) {
  return [inner = std::move(inner), slot = std::move(slot), &block](Arguments... arguments) -> Result {
    if (block.watcher == nullptr || !at::GradMode::is_enabled()) return inner(arguments...);
    Tensors inputs;
    (add_tensor(inputs, arguments), ...);
    return from_tensors<Result>(
        block.watcher->call(slot, inputs, [&] { return as_tensors(inner(arguments...)); }));
  };
}
}  // namespace

std::vector<std::string> Operators::slots() {
  return {"attention", "linear", "norm", "add_norm", "position", "convolution", "delta_rule", "swiglu"};
}

template <class AnySlot>
void Operators::watch(AnySlot& slot, const Recipe& recipe) {
  slot.wrap(Phase::checkpoint,
            [this, &recipe, name = slot.name()](auto inner, const Module& module) {
              return module.layer < 0 || compiled(recipe)
                         ? inner
                         : watched(std::move(inner), name, block(module.layer));
            },
            {.trace = Trace::aten, .capturable = true});
}

void Operators::watch(Recipe& recipe) {
  auto& ops = recipe.ops;
  watch(ops.attention, recipe);
  watch(ops.linear, recipe);
  watch(ops.norm, recipe);
  watch(ops.add_norm, recipe);
  watch(ops.position, recipe);
  watch(ops.convolution, recipe);
  watch(ops.delta_rule, recipe);
  watch(ops.swiglu, recipe);
  watch(ops.geglu, recipe);
}

bool compiled(const Recipe& recipe) {
  const auto wraps = recipe.unit.wraps();
  return std::ranges::any_of(wraps, [](const Edit& edit) { return edit.phase == Phase::compile; });
}
}  // namespace optrush::checkpointing
