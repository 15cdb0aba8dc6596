#include "switch_back.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "optrush/error.h"

namespace optrush::float8 {
namespace {
constexpr const char* kLeaveIt = "leave until at 1, which keeps fp8 to the end";

bool has_phase(const SlotInfo& slot, Phase phase) {
  return std::ranges::any_of(slot.wraps(), [phase](const Edit& wrap) { return wrap.phase == phase; });
}
}  // namespace

SwitchBack::SwitchBack(const RunSpec& spec, double until) {
  if (until == 1) return;
  if (spec.train.epochs > 0)
    throw Error("float8: until is a fraction of the run's steps, but train.epochs may end the run earlier",
                std::string("set train.steps alone, or ") + kLeaveIt);
  if (!spec.start.empty() && !spec.weights_only)
    throw Error("float8: until counts the steps of one run, but this run continues from a state",
                std::string("start from the weights alone (weights_only = true), or ") + kLeaveIt);
  const int64_t steps = spec.train.warmup + spec.train.steps;
  step_ = std::llround(until * static_cast<double>(steps));
  if (step_ == 0)
    throw Error(ErrorCode::invalid_value,
                "float8: until leaves none of the " + std::to_string(steps) + " steps in fp8",
                "raise until, which is at most 1, or remove the rung");
}

void SwitchBack::check(const optrush::Recipe& recipe, Run& run) const {
  if (step_ == kNever) return;
  if (has_phase(recipe.unit, Phase::compile))
    throw Error(
        "float8: until changes the form of the linears, but compiled units keep the form of the first step",
        std::string("remove 'compile' from the stack, or ") + kLeaveIt);
  if (has_phase(recipe.schedule, Phase::capture))
    throw Error(
        "float8: until changes the form of the linears, but a CUDA graph repeats the step that it recorded",
        std::string("remove 'cuda_graphs' from the stack, or ") + kLeaveIt);
  run.note("float8: from step " + std::to_string(step_) + " on, linears are computed without fp8");
}
}  // namespace optrush::float8
