#pragma once
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace optrush {
/// Pointers to the words with a null at the end, as exec() takes them.
std::vector<char*> pointers_to(std::vector<std::string>& words);
/// Starts a program, the first of `words`, that ends when the calling thread ends. Its output is appended to
/// `log`. Throws an Error if it can't be started.
pid_t start_with_parent(std::vector<std::string> words, const std::filesystem::path& log);
}  // namespace optrush
