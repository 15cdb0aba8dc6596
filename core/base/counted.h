#pragma once
#include <cstdint>
#include <string>

namespace optrush {
/// "1 step", "3 steps". `noun` is the singular; the plural adds an s.
inline std::string counted(int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}
}  // namespace optrush
