#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace optrush {
/// The kind of a case of `optrush check`.
enum class CheckKind : uint8_t {
  alone,     ///< a plugin trains like its plain form
  gradient,  ///< gradients with a plugin equal the differences of its loss; also for its Differentiables
  types,     ///< each Differentiable has in every type the result that it has in fp64
  resume,    ///< a run that continues from its saved state makes the same steps as an uninterrupted one
  compiled,  ///< `alone` and `pair` with a plugin that compiles at run time
  pair       ///< two plugins train together like their plain form
};
inline constexpr std::array<std::string_view, 6> kCheckKinds = {"alone",  "gradient", "types",
                                                                "resume", "compiled", "pair"};
inline std::string_view to_string(CheckKind kind) { return kCheckKinds.at(static_cast<size_t>(kind)); }
inline std::span<const std::string_view> names_of(CheckKind) { return kCheckKinds; }
}  // namespace optrush
