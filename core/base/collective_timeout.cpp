#include "base/collective_timeout.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "optrush/error.h"

namespace optrush {
std::chrono::seconds collective_timeout() {
  constexpr int64_t kUsual = 60, kMost = 86400;
  const char* given = std::getenv("OPTRUSH_COLLECTIVE_TIMEOUT");
  const std::string_view text = given == nullptr ? "" : given;
  if (text.empty()) return std::chrono::seconds(kUsual);
  int64_t seconds = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (failure != std::errc() || end != text.data() + text.size() || seconds < 1 || seconds > kMost)
    throw Error("OPTRUSH_COLLECTIVE_TIMEOUT is '" + std::string(text) + "'",
                "a whole number from 1 to " + std::to_string(kMost), "environment");
  return std::chrono::seconds(seconds);
}
}  // namespace optrush
