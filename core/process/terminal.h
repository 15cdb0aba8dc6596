#pragma once
#include <string>
#include <string_view>

namespace optrush {
enum class Colour : unsigned char { plain, green, yellow, red, dim };

/// Capabilities of an output stream.
struct Terminal {
  int fd = 2;
  bool live = false;  ///< a line may be redrawn
  bool colour = false;

  /// The terminal of an open descriptor. It is live if it is not "dumb", and coloured unless NO_COLOR is set.
  static Terminal of(int fd);
  /// The present number of columns; 80 if unknown.
  int columns() const;
  std::string paint(Colour, std::string_view text) const;
  /// Writes in one system call, so that no other output is mixed in.
  void write(std::string_view text) const;
};

/// The number of columns of the standard output; 0: it is not a terminal.
size_t output_columns();

/// The text with printable characters only, cut to `columns`. A cut text ends with "…".
std::string fit(std::string_view utf8, int columns);
}  // namespace optrush
