#pragma once
#include <string>
#include <vector>

namespace optrush {
/// A program, the first of `words`, takes this process's place. An Error with this cure where it can't be
/// started.
[[noreturn]] void become(std::vector<std::string> words, const std::string& cure);
}  // namespace optrush
