#include "capturable.h"

#include "optrush/error.h"

namespace optrush::cuda_graphs {
namespace {
/// The first steps run eagerly: libraries allocate their workspaces, and the host counts saved tensors and
/// operators.
constexpr int64_t kWarmup = 3;

/// Whether the slot runs outside of a step: it makes batches, assigns units, or computes held-out losses.
bool outside_of_step(const SlotInfo& slot) {
  return slot.name() == "data" || slot.name() == "stages" || slot.name() == "evaluation";
}
}  // namespace

std::vector<std::string> uncapturable(const Recipe& recipe) {
  std::vector<std::string> found;
  for (const SlotInfo* slot : recipe.slots()) {
    if (outside_of_step(*slot)) continue;
    const Edit& base = slot->base();
    if (!base.traits.capturable)
      found.push_back(base.plugin == "plain" ? "the plain " + slot->name()
                                             : "'" + base.plugin + "' in " + slot->name());
    for (const Edit& wrap : slot->wraps()) {
      const bool further_out = slot == &recipe.schedule && wrap.phase >= Phase::capture;
      if (!wrap.traits.capturable && !further_out)
        found.push_back("'" + wrap.plugin + "' in " + slot->name());
    }
  }
  return found;
}

void check_capturable(const Recipe& recipe) {
  std::string names;
  for (const auto& name : uncapturable(recipe)) names += (names.empty() ? "" : ", ") + name;
  if (!names.empty())
    throw Error(
        "a CUDA graph cannot record operations that wait for the host or differ from step to step: " + names,
        "remove these from the stack, or replace them by capturable plugins (fused_adamw for the plain "
        "optimizer)");
  const int64_t warmup = recipe.spec().train.warmup;
  if (warmup < kWarmup)
    throw Error(ErrorCode::invalid_value,
                "cuda_graphs needs at least " + std::to_string(kWarmup) +
                    " warm-up steps and records the last one, but train.warmup is " + std::to_string(warmup),
                "set train.warmup = " + std::to_string(kWarmup));
}
}  // namespace optrush::cuda_graphs
