#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "optrush/json.h"

namespace optrush {
/// Tokens [begin, end) of a document.
struct TokenSpan {
  int64_t begin = 0, end = 0;
  bool operator==(const TokenSpan&) const = default;
};

/// Fine-tuning data: a file with one JSON object per line, or a folder whose files are documents
/// (docs/guides/fine_tuning.md). Documents are kept in memory with 4 bytes per token, at most `most_tokens`.
class Documents {
 public:
  enum class Form : uint8_t {
    single,
    pairs  ///< two answers to a prompt: the chosen one, then the rejected one
  };
  /// `extensions`: the files of a folder to read; empty: all. `tokenizer`: the folder of the model's
  /// tokenizer, in which case untokenized text is an Error; empty: a token is a byte.
  Documents(const std::filesystem::path&, const std::vector<std::string>& extensions, int64_t most_tokens,
            Form form = Form::single, std::string tokenizer = "");

  /// The number of consecutive documents that belong together.
  int64_t together() const { return form_ == Form::pairs ? 2 : 1; }
  int64_t count() const { return static_cast<int64_t>(begins_.size()) - 1; }
  /// The tokens of a document, at least two.
  std::span<const uint32_t> tokens(int64_t document) const;
  /// The tokens with a loss, in order. The first token never has one, because nothing precedes it. For a
  /// document that was cut, these are the spans of the whole document.
  std::span<const TokenSpan> trained(int64_t document) const;
  /// All tokens are below this.
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
  std::vector<int64_t> begins_ = {0};  ///< start of each document's tokens, and the end
  std::vector<TokenSpan> trained_;
  std::vector<int64_t> trained_begins_ = {0};  ///< start of each document's spans, and the end
  int64_t vocab_size_ = 0;
};
}  // namespace optrush
