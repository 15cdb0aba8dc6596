#pragma once
#include <string>
#include <vector>

namespace optrush {
/// Replaces this process by the program `words[0]`. Throws an Error with this remedy if it can't be started.
[[noreturn]] void become(std::vector<std::string> words, const std::string& cure);
}  // namespace optrush
