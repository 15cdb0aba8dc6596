#pragma once
#include <string>
#include <string_view>

namespace optrush {
/// The first character of a non-empty text: its bytes and its code point. A byte that does not start a valid
/// UTF-8 sequence is a character.
struct Character {
  std::string_view bytes;
  char32_t code = 0;
};
Character first_character(std::string_view utf8);

/// Whether a text has an invisible character that changes how it is printed: control characters, line breaks
/// of any kind, marks of writing direction, zero-width spaces. The joiners inside words and emoji are
/// allowed.
bool has_hidden_character(std::string_view utf8);
/// Replaces each hidden character by '?', so that a name can't move the cursor.
std::string printable(std::string_view utf8);
/// The same for a text with several lines: line feeds are kept.
std::string printable_lines(std::string_view utf8);
}  // namespace optrush
