#pragma once
#include <cstdint>
#include <string_view>

namespace optrush {
/// Walks a JSON text and gives out its values one after the other, without a document of it: for texts of
/// many megabytes. It reads what this project's writers write: keys without escapes. At the first thing that
/// it cannot read, or that is not JSON, good() becomes false. Its values are then meaningless.
class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text)
      : begin_(text.data()), place_(begin_), end_(begin_ + text.size()) {}

  bool good() const { return good_; }
  /// Bytes before the next value, or before what follows the last one.
  size_t position();
  /// Whether nothing follows.
  bool at_end() { return position() == static_cast<size_t>(end_ - begin_); }

  /// Into a list ('[') or an object ('{').
  bool enter(char bracket);
  /// Whether the list has one more item, whose value is next. Else it has been left.
  bool next_item();
  /// The same of an object, with the key.
  bool next_member(std::string_view& key);

  // The next value:
  double number();
  int64_t integer();
  bool boolean();
  /// Whether it was null; if not, it is still next.
  bool null();
  /// Its text, whose inside is not looked at more closely than to find its end.
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
  bool first_ = false;  ///< nothing of the present list or object was given out
};
}  // namespace optrush
