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

  /// Of an open descriptor: a terminal that is not "dumb" is live, and coloured unless NO_COLOR is set.
  static Terminal of(int fd);
  /// Columns now; 80 where unknown.
  int columns() const;
  std::string paint(Colour, std::string_view text) const;
  /// In one system call, so that nothing comes between.
  void write(std::string_view text) const;
};

/// Printable, and cut to `columns`, the last of them "…" where something was cut.
std::string fit(std::string_view utf8, int columns);
}  // namespace optrush
