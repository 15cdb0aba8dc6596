#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace optrush {
/// Names of the tokenizer and chat template files of a Hugging Face folder, and of its folder of templates.
const std::vector<std::string>& tokenizer_files();
/// Whether the folder has one of them.
bool has_tokenizer(const std::filesystem::path& folder);
}  // namespace optrush
