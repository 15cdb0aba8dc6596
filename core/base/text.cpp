#include "base/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <ctime>

#include "base/number_text.h"

namespace optrush {
std::string join(const std::vector<std::string>& words, std::string_view separator) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : std::string(separator)) + word;
  return text;
}

std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  return parts;
}

std::vector<std::string> plain_words(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && std::isalnum(byte) != 0)
      words.back() += static_cast<char>(std::tolower(byte));
    else if (!words.back().empty())
      words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

std::string clock_time(double seconds) {
  if (seconds < 9.95) return fixed(seconds, 1) + " s";
  const auto whole = static_cast<int64_t>(std::llround(std::min(seconds, 1e9)));
  const auto parts = [](int64_t large, const char* unit, int64_t small, const char* small_unit) {
    return std::to_string(large) + unit + (small == 0 ? "" : " " + std::to_string(small) + small_unit);
  };
  if (whole < 60) return std::to_string(whole) + " s";
  if (whole < 3600) return parts(whole / 60, " min", whole % 60, " s");
  return parts(whole / 3600, " h", whole % 3600 / 60, " min");
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> buffer{};
  const size_t length = std::strftime(buffer.data(), buffer.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return {buffer.data(), length};
}

std::string with_cure(std::string_view error) {
  static constexpr std::string_view kCure = "\n  hint: ";
  const size_t cure = error.find(kCure);
  if (cure == std::string_view::npos) return first_line(error);
  return first_line(error) + " (" + first_line(error.substr(cure + kCure.size())) + ")";
}

std::string filled_in(std::string text, const std::vector<std::pair<std::string, std::string>>& values) {
  for (const auto& [placeholder, value] : values)
    for (size_t at = 0; (at = text.find(placeholder, at)) != std::string::npos; at += value.size())
      text.replace(at, placeholder.size(), value);
  return text;
}
}  // namespace optrush
