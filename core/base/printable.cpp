#include "base/printable.h"

#include <algorithm>
#include <array>
#include <utility>

namespace optrush {
namespace {
size_t sequence_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  return std::min(length, text.size());
}

char32_t code_point(std::string_view sequence) {
  const auto lead = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return lead;
  char32_t value = lead & (0x7Fu >> sequence.size());
  for (const char c : sequence.substr(1)) value = (value << 6) | (static_cast<unsigned char>(c) & 0x3Fu);
  return value;
}

bool hidden(char32_t c) {
  static constexpr std::array<std::pair<char32_t, char32_t>, 8> kHidden{{{0x00, 0x1F},
                                                                         {0x7F, 0x9F},
                                                                         {0x61C, 0x61C},
                                                                         {0x200B, 0x200B},
                                                                         {0x200E, 0x200F},
                                                                         {0x2028, 0x202E},
                                                                         {0x2060, 0x206F},
                                                                         {0xFEFF, 0xFEFF}}};
  return std::ranges::any_of(kHidden,
                             [&](const auto& range) { return c >= range.first && c <= range.second; });
}

template <class Keep>
std::string without_hidden(std::string_view utf8, const Keep& keep) {
  std::string result;
  while (!utf8.empty()) {
    const Character next = first_character(utf8);
    result += hidden(next.code) && !keep(next.code) ? "?" : std::string(next.bytes);
    utf8.remove_prefix(next.bytes.size());
  }
  return result;
}
}  // namespace

Character first_character(std::string_view utf8) {
  const auto bytes = utf8.substr(0, sequence_length(utf8));
  return {bytes, code_point(bytes)};
}

bool has_hidden_character(std::string_view utf8) { return printable(utf8) != utf8; }

std::string printable(std::string_view utf8) {
  return without_hidden(utf8, [](char32_t) { return false; });
}

std::string printable_lines(std::string_view utf8) {
  return without_hidden(utf8, [](char32_t c) { return c == '\n'; });
}
}  // namespace optrush
