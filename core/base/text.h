#pragma once
#include <concepts>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace optrush {
/// "1 step", "3 steps". `noun` is the singular; the plural adds an s.
std::string counted(std::integral auto count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}
/// The text up to the first line break. In messages of LibTorch, a stack trace follows it.
inline std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }
/// "a, b, c".
std::string join(const std::vector<std::string>& words, std::string_view separator = ", ");
/// The text that `make` returns for each item, in order. `make` may be a member.
std::vector<std::string> texts_of(const auto& items, auto make) {
  std::vector<std::string> texts;
  for (const auto& item : items) texts.emplace_back(std::invoke(make, item));
  return texts;
}
/// The parts of a text between separators: one more than there are separators.
std::vector<std::string> split(std::string_view text, std::string_view separator);
/// The words of ASCII letters and digits in a text, in lower case: "A100-80GB" becomes "a100" and "80gb".
std::vector<std::string> plain_words(std::string_view text);
/// A duration for people: "0.4 s", "12 s", "3 min 5 s", "1 h 2 min".
std::string clock_time(double seconds);
/// The present time in UTC: "2026-08-01T12:00:00Z".
std::string utc_now();
/// The first line of an error's text, followed by its remedy in parentheses: "no GPU can be used (run with
/// --device cpu)".
std::string with_cure(std::string_view error);
/// Replaces each placeholder by its value, in order. A value may contain a later placeholder.
std::string filled_in(std::string text, const std::vector<std::pair<std::string, std::string>>& values);
}  // namespace optrush
