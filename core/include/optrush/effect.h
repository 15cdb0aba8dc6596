#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace optrush {
/// How a plugin changes arithmetic, and so how the correctness gate compares its rung
/// (docs/internals/verdicts.md).
enum class Effect : uint8_t {
  exact,      ///< the same bits
  rounding,   ///< the same formula in another order
  precision,  ///< fewer bits
  batch,      ///< another number of sequences a step
  model       ///< another function, task or rule of the update, or other trainable parameters
};
std::string_view to_string(Effect);
std::vector<std::string> effect_names();
/// An Error names the effects.
Effect effect_from_string(std::string_view, const std::string& where);
}  // namespace optrush
