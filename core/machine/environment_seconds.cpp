#include "machine/environment_seconds.h"

#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

#include "optrush/error.h"

namespace optrush {
double environment_seconds(const char* name, double usual, double most) {
  const char* given = std::getenv(name);
  const std::string_view text = given == nullptr ? "" : given;
  if (text.empty()) return usual;
  double seconds = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (failure != std::errc() || end != text.data() + text.size() || !(seconds > 0 && seconds <= most))
    throw Error(ErrorCode::invalid_value, std::string(name) + " is '" + std::string(text) + "'",
                "give seconds above 0 and up to " + std::to_string(static_cast<int64_t>(most)),
                "environment");
  return seconds;
}
}  // namespace optrush
