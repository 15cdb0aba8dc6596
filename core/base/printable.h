#pragma once
#include <string>
#include <string_view>

namespace optrush {
/// The first character of a text that is not empty: its bytes, and its code point. A byte that starts no
/// UTF-8 sequence is one of its own.
struct Character {
  std::string_view bytes;
  char32_t code = 0;
};
Character first_character(std::string_view utf8);

/// Whether a text has a character that isn't seen and yet does something where it is printed: control
/// characters, line ends of every kind, marks that change the direction of a line, spaces without width. The
/// joiners inside of words and emoji are none.
bool has_hidden_character(std::string_view utf8);
/// Each of these as '?', so that a name can't move the cursor.
std::string printable(std::string_view utf8);
/// As printable(), of a text that may have lines.
std::string printable_lines(std::string_view utf8);
}  // namespace optrush
