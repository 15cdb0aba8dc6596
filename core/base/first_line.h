#pragma once
#include <string>
#include <string_view>

namespace optrush {
/// The text up to the first line break. In messages of LibTorch, a stack trace follows it.
inline std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }
}  // namespace optrush
