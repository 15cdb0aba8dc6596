#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace optrush {
/// What a Hugging Face folder may hold of its tokenizer and chat templates: files, and a folder of templates.
const std::vector<std::string>& tokenizer_files();
/// Whether the folder has any of them.
bool has_tokenizer(const std::filesystem::path& folder);
}  // namespace optrush
