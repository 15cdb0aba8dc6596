#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "optrush/json.h"

namespace optrush {
/// Tokens `begin` to `end` - 1 of a document.
struct TokenSpan {
  int64_t begin = 0, end = 0;
  bool operator==(const TokenSpan&) const = default;
};

/// Fine-tuning data, document by document: a file with one JSON object per line, or a folder whose files are
/// documents (docs/guides/fine_tuning.md). They are kept in memory, 4 bytes a token, up to `most_tokens` of
/// each.
class Documents {
 public:
  enum class Form : uint8_t {
    single,
    pairs  ///< two answers to one prompt, the chosen one and behind it the rejected one
  };
  /// Of a folder only files that end so; empty: every file. `tokenizer`: the folder of the model whose
  /// tokenizer text has to go through, so that text here is an Error; empty: a byte is a token.
  Documents(const std::filesystem::path&, const std::vector<std::string>& extensions, int64_t most_tokens,
            Form form = Form::single, std::string tokenizer = "");

  /// How many that follow each other are one.
  int64_t together() const { return form_ == Form::pairs ? 2 : 1; }
  int64_t count() const { return static_cast<int64_t>(begins_.size()) - 1; }
  /// Its tokens, two at least.
  std::span<const uint32_t> tokens(int64_t document) const;
  /// Those that a loss is taken on, in order, the first token never: what is left is given. Of a document
  /// that was cut they are those of the whole.
  std::span<const TokenSpan> trained(int64_t document) const;
  /// Every token is below it.
  int64_t vocab_size() const { return vocab_size_; }

 private:
  void add_text(const std::string& prompt, const std::string& completion);
  void add_pairs(const std::vector<std::string>& texts);
  void add(uint32_t token);
  void end_document(int64_t prompt, const std::string& where) {
    end_document(std::vector{TokenSpan{prompt, INT64_MAX}}, where);
  }
  void end_document(const std::vector<TokenSpan>& trained, const std::string& where);
  void read_lines(const std::filesystem::path&);
  void read_line(const std::string& line, const std::string& where);
  void read_pair(const Json& line, const std::string& where);
  void refuse_text(const std::string& where) const;

  Form form_;
  int64_t most_tokens_;
  std::string tokenizer_;
  std::vector<uint32_t> tokens_;
  std::vector<int64_t> begins_ = {0};  ///< of a document's tokens, and the end of all
  std::vector<TokenSpan> trained_;
  std::vector<int64_t> trained_begins_ = {0};  ///< of a document's spans
  int64_t vocab_size_ = 0;
};
}  // namespace optrush
