#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "optrush/json.h"

namespace optrush {
/// What a model is tuned on, document by document: a file with one JSON object a line, or a folder whose
/// files are documents (docs/experiments.md, "Documents" and "Preferences"). They are kept in memory, 4 bytes
/// a token, up to `most_tokens` of each.
class Documents {
 public:
  enum class Form : uint8_t {
    single,
    pairs  ///< two answers to one prompt, the chosen one and behind it the rejected one
  };
  /// Of a folder only files that end so; empty: every file.
  Documents(const std::filesystem::path&, const std::vector<std::string>& extensions, int64_t most_tokens,
            Form form = Form::single);

  /// How many that follow each other are one.
  int64_t together() const { return form_ == Form::pairs ? 2 : 1; }
  int64_t count() const { return static_cast<int64_t>(begins_.size()) - 1; }
  /// Its tokens, two at least.
  std::span<const uint32_t> tokens(int64_t document) const;
  /// How many of its first tokens are given, so that no loss is taken on them.
  int64_t prompt(int64_t document) const { return prompts_[static_cast<size_t>(document)]; }
  /// Every token is below it.
  int64_t vocab_size() const { return vocab_size_; }

 private:
  void add_text(const std::string& prompt, const std::string& completion);
  void add_pairs(const std::vector<std::string>& texts);
  void add(uint32_t token);
  void end_document(int64_t prompt, const std::string& where);
  void read_lines(const std::filesystem::path&);
  void read_line(const std::string& line, const std::string& where);
  void read_pair(const Json& line, const std::string& where);

  Form form_;
  int64_t most_tokens_;
  std::vector<uint32_t> tokens_;
  std::vector<int64_t> begins_ = {0}, prompts_;
  int64_t vocab_size_ = 0;
};
}  // namespace optrush
