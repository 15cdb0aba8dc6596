#pragma once
#include <string>
#include <string_view>

namespace optrush {
/// Text up to the first line break: what a library's message says before its stack trace.
inline std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }
}  // namespace optrush
