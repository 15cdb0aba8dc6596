#pragma once
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace optrush {
/// Pointers to the words with a null at the end, as exec() takes them.
std::vector<char*> pointers_to(std::vector<std::string>& words);
/// Starts the program words[0], which ends when the calling thread ends and appends its output to `log`.
pid_t start_with_parent(std::vector<std::string> words, const std::filesystem::path& log);
}  // namespace optrush
