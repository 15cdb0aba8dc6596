#include "report/format.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/counted.h"
#include "report/verdict.h"

namespace optrush {
namespace {
template <class... How>
std::string to_text(double value, How... how) {
  std::array<char, 400> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value, how...).ptr};
}

/// Three significant digits, but all digits in front of the point.
std::string three_digits(double value) {
  const double size = std::abs(value);
  return fixed(value, size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

std::string with_unit(double value, double step, const auto& units) {
  size_t unit = 0;
  // 999.5 would round to four digits.
  while (std::abs(value) >= step - 0.5 && unit + 1 < units.size()) value /= step, ++unit;
  return (unit == 0 && value == std::floor(value) ? fixed(value, 0) : three_digits(value)) + " " +
         std::string(units[unit]);
}
}  // namespace

std::string fixed(double value, int digits) {
  const std::string text = to_text(value, std::chars_format::fixed, digits);
  const bool minus_zero = text.find_first_not_of("-0.") == std::string::npos;
  return minus_zero && text.starts_with('-') ? text.substr(1) : text;
}

std::string grouped(double value) {
  if (std::abs(value) < 999.5) return three_digits(value);
  const std::string digits = fixed(std::abs(value), 0);
  std::string text = value < 0 ? "-" : "";
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string scientific(double value, int digits) {
  return to_text(value, std::chars_format::scientific, digits);
}

std::string exact_number(double value) { return to_text(value); }

std::string bytes(double value) {
  static constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  return with_unit(value, 1024, kUnits);
}

std::string byte_rate(double per_second) {
  static constexpr std::array<std::string_view, 5> kUnits = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  return with_unit(per_second, 1000, kUnits);
}

std::string flops_rate(double per_second) {
  static constexpr std::array<std::string_view, 5> kUnits = {"FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s",
                                                             "TFLOP/s"};
  return with_unit(per_second, 1000, kUnits);
}

std::string duration(double seconds) {
  if (seconds == 0) return "0 s";
  if (seconds >= 0.9995) return three_digits(seconds) + " s";
  if (seconds >= 0.9995e-3) return three_digits(seconds * 1e3) + " ms";
  return three_digits(seconds * 1e6) + " µs";
}

std::string percent(double fraction, int digits) { return fixed(fraction * 100, digits) + " %"; }

std::string change(double ratio, int digits) {
  const std::string text = percent(ratio - 1, digits);
  return text.starts_with('-') || text.find_first_not_of("0. %") == std::string::npos ? text : "+" + text;
}

namespace {
/// Near 1 the third digit decides what is noise.
int digits_near(double value) { return std::abs(value - 1) < 0.05 ? 3 : 2; }

/// So many that an interval without 1 does not look as if it held 1.
int digits_of(const Ratio& ratio) {
  constexpr int kMost = 6;
  int digits = digits_near(ratio.value);
  const auto looks_like_one = [&](double bound) { return fixed(bound, digits) == fixed(1, digits); };
  while (ratio.claim() && digits < kMost &&
         (looks_like_one(ratio.interval->low) || looks_like_one(ratio.interval->high)))
    ++digits;
  return digits;
}
}  // namespace

std::string ratio_only(double ratio) { return fixed(ratio, digits_near(ratio)) + "x"; }

std::string interval_text(const Ratio& ratio) {
  const int digits = digits_of(ratio);
  return fixed(ratio.value, digits) + "x [" + fixed(ratio.interval->low, digits) + ", " +
         fixed(ratio.interval->high, digits) + "]";
}

std::string ratio_text(const Ratio& ratio) {
  if (ratio.same_run) return std::string(to_string(Outcome::same_run));
  if (!ratio.interval)
    return fixed(ratio.value, digits_of(ratio)) + "x (" +
           counted(static_cast<int64_t>(ratio.rounds), "round") + ", no claim)";
  const Outcome outcome = verdict_of(ratio).outcome;
  return interval_text(ratio) + (ratio.claim() ? "" : " " + std::string(to_string(outcome)));
}

std::string markdown_cell(std::string_view text) {
  const auto in_word = [&](size_t i) {
    return i < text.size() && std::isalnum(static_cast<unsigned char>(text[i])) != 0;
  };
  // Backslashes only where they are needed: people read the file as it is, too.
  const auto special = [&](size_t i) {
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    switch (text[i]) {
      case '\\':
      case '|':
      case '`':
      case '*':
      case '~':
      case '$':
        return true;
      case '_':
        return i == 0 || !in_word(i - 1) || !in_word(i + 1);
      case '[':
        return i == 0 || text[i - 1] == '!';
      case ']':
        return next == '(' || next == '[' || next == ':';
      case '#':
      case '+':
      case '-':
        return i == 0 && (next == ' ' || next == '\0');
      default:
        return false;
    }
  };
  std::string cell;
  for (size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '&':
        cell += "&amp;";
        break;
      case '<':
        cell += "&lt;";
        break;
      case '>':
        cell += "&gt;";
        break;
      case '\n':
        cell += "<br>";
        break;
      case '\r':
      case '\t':
        cell += ' ';
        break;
      default:
        if (special(i)) cell += '\\';
        cell += text[i];
    }
  }
  return cell;
}

std::string html_text(std::string_view text) {
  std::string html;
  for (const char c : text) {
    switch (c) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '"':
        html += "&quot;";
        break;
      case '\'':
        html += "&#39;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string field = "\"";
  for (const char c : text) field += c == '"' ? std::string("\"\"") : std::string(1, c);
  return field + "\"";
}

size_t characters(std::string_view utf8) {
  return static_cast<size_t>(std::count_if(
      utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}
}  // namespace optrush
