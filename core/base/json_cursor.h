#pragma once
#include <cstdint>
#include <string_view>

namespace optrush {
/// Reads the values of a JSON text one after another without building a document, for texts of many
/// megabytes. It supports what this program writes: keys without escapes. At the first value that it does not
/// support, or at invalid JSON, good() becomes false; later values are then meaningless.
class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text)
      : begin_(text.data()), place_(begin_), end_(begin_ + text.size()) {}

  bool good() const { return good_; }
  /// Offset of the next value in bytes; at the end, of what follows the last value.
  size_t position();
  /// Whether only white space follows.
  bool at_end() { return position() == static_cast<size_t>(end_ - begin_); }

  /// Enters a list ('[') or an object ('{').
  bool enter(char bracket);
  /// Moves to the next item of the list. Returns false at its end, and leaves the list.
  bool next_item();
  /// The same for an object; also returns the key.
  bool next_member(std::string_view& key);

  // Each of these reads the next value.
  double number();
  int64_t integer();
  bool boolean();
  /// Reads the value if it is null; otherwise returns false and leaves it.
  bool null();
  /// Skips the value and returns its text. The inside is checked only as far as needed to find the end.
  std::string_view skip();

 private:
  void space();
  bool take(char);
  bool take(std::string_view word);
  bool next(char bracket);
  bool string(std::string_view& content);
  void skip_string();
  std::string_view number_text(bool& whole);

  const char *begin_, *place_, *end_;
  bool good_ = true;
  bool first_ = false;  ///< at the start of the present list or object
};
}  // namespace optrush
