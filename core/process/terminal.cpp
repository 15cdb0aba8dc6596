#include "process/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/printable.h"
#include "machine/environment.h"

namespace optrush {
namespace {
/// Columns of a character: 0 for combining marks, 2 for East Asian wide ones and emoji. An overestimate only
/// cuts earlier, so the ranges are coarse.
int width(char32_t c) {
  if ((c >= 0x300 && c <= 0x36F) || (c >= 0x200B && c <= 0x200F) || (c >= 0xFE00 && c <= 0xFE0F)) return 0;
  static constexpr std::array<std::pair<char32_t, char32_t>, 7> kWide{{{0x1100, 0x115F},
                                                                       {0x2600, 0x27BF},
                                                                       {0x2E80, 0xA4CF},
                                                                       {0xAC00, 0xD7A3},
                                                                       {0xF900, 0xFAFF},
                                                                       {0xFE30, 0xFF60},
                                                                       {0x1F000, 0x3FFFD}}};
  for (const auto& [first, last] : kWide)
    if (c >= first && c <= last) return 2;
  return 1;
}
}  // namespace

Terminal Terminal::of(int fd) {
  const char* kind = std::getenv("TERM");
  const bool live = isatty(fd) == 1 && kind != nullptr && std::string_view(kind) != "dumb";
  return {fd, live, live && environment_variable("NO_COLOR").empty()};
}

int Terminal::columns() const {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

size_t output_columns() {
  return isatty(STDOUT_FILENO) == 1 ? static_cast<size_t>(Terminal{STDOUT_FILENO}.columns()) : 0;
}

std::string Terminal::paint(Colour colour, std::string_view text) const {
  if (!this->colour || colour == Colour::plain) return std::string(text);
  static constexpr std::array<std::string_view, 5> kCodes{"0", "32", "33", "31", "2"};
  return "\x1b[" + std::string(kCodes.at(static_cast<size_t>(colour))) + "m" + std::string(text) + "\x1b[0m";
}

void Terminal::write(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno != EINTR) return;  // there is no reader; the measurement continues
    if (n > 0) text.remove_prefix(static_cast<size_t>(n));
  }
}

std::string fit(std::string_view utf8, int columns) {
  const std::string whole = printable(utf8);
  std::string_view rest = whole;
  std::string kept;
  std::string shorter;  // what fits beside an ellipsis
  int used = 0;
  while (!rest.empty()) {
    const Character next = first_character(rest);
    used += width(next.code);
    if (used > columns) return columns > 0 ? shorter + "…" : "";
    kept += next.bytes;
    if (used < columns) shorter = kept;
    rest.remove_prefix(next.bytes.size());
  }
  return kept;
}
}  // namespace optrush
