#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace optrush {
/// Converts text to a model's tokens and back.
class TextTokens {
 public:
  virtual ~TextTokens() = default;
  virtual std::vector<std::vector<int64_t>> tokens(const std::vector<std::string>& texts) const = 0;
  virtual std::vector<std::string> texts(const std::vector<std::vector<int64_t>>& tokens) const = 0;
  /// The token that ends a text; -1: none.
  virtual int64_t end() const = 0;
};

/// The tokenizer of a checkpoint's folder, called through Python. Without a checkpoint, or with one of 256
/// tokens and no tokenizer, a token is a byte. Throws an Error that states what is missing.
std::unique_ptr<TextTokens> open_text_tokens(const std::string& checkpoint, int64_t vocab_size);
}  // namespace optrush
