#include "optrush/edit.h"

#include <algorithm>
#include <array>

#include "base/suggest.h"
#include "optrush/error.h"
#include "optrush/options.h"

namespace optrush {
namespace {
constexpr std::array<std::string_view, 16> kPhases = {
    "base",  "quantize", "adapter",   "tensor",    "context",   "compile", "checkpoint", "offload",
    "shard", "pipeline", "precision", "gradients", "optimizer", "capture", "prefetch",   "measure"};
constexpr std::array<std::string_view, 5> kEffects = {"exact", "rounding", "precision", "batch", "model"};
static_assert(kPhases.size() == static_cast<size_t>(Phase::measure) + 1);
static_assert(kEffects.size() == static_cast<size_t>(Effect::model) + 1);
}  // namespace

std::string_view to_string(Phase phase) { return kPhases.at(static_cast<size_t>(phase)); }
std::string_view to_string(Effect effect) { return kEffects.at(static_cast<size_t>(effect)); }

std::vector<std::string> effect_names() { return {kEffects.begin(), kEffects.end()}; }

Effect effect_from_string(std::string_view name, const std::string& where) {
  const auto it = std::ranges::find(kEffects, name);
  if (it == kEffects.end())
    throw Error(ErrorCode::unknown_name, "unknown effect '" + std::string(name) + "'",
                did_you_mean(name, effect_names()), where);
  return static_cast<Effect>(it - kEffects.begin());
}
}  // namespace optrush
