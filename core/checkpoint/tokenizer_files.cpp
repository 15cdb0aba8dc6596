#include "checkpoint/tokenizer_files.h"

#include <algorithm>

namespace optrush {
const std::vector<std::string>& tokenizer_files() {
  static const std::vector<std::string> files = {"tokenizer.json",
                                                 "tokenizer.model",
                                                 "tokenizer_config.json",
                                                 "special_tokens_map.json",
                                                 "added_tokens.json",
                                                 "vocab.json",
                                                 "merges.txt",
                                                 "vocab.txt",
                                                 "spiece.model",
                                                 "chat_template.jinja",
                                                 "chat_template.json",
                                                 "additional_chat_templates"};
  return files;
}

bool has_tokenizer(const std::filesystem::path& folder) {
  return std::ranges::any_of(tokenizer_files(), [&](const std::string& name) {
    std::error_code unreadable;
    return std::filesystem::exists(folder / name, unreadable);
  });
}
}  // namespace optrush
