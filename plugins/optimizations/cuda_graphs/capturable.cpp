#include "capturable.h"

#include "optrush/error.h"

namespace optrush::cuda_graphs {
namespace {
/// The first steps run as they are: libraries make their workspaces, and the host counts what is kept and
/// run.
constexpr int64_t kWarmup = 3;

/// Batches are made, units assigned and held-out losses computed outside of a step; so is what wraps the
/// schedule further out.
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
    throw Error("a CUDA graph can't hold what may wait for the host or differs from step to step: " + names,
                "take these off the stack, or stack plugins that are capturable in their place (fused_adamw "
                "for the plain optimizer)");
  const int64_t warmup = recipe.spec().train.warmup;
  if (warmup < kWarmup)
    throw Error("cuda_graphs records the last of " + std::to_string(kWarmup) +
                    " or more warm-up steps; there are " + std::to_string(warmup),
                "set train.warmup = " + std::to_string(kWarmup));
}
}  // namespace optrush::cuda_graphs
