#include "base/number_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

namespace optrush {
namespace {
template <class... How>
std::string to_text(double value, How... how) {
  std::array<char, 400> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value, how...).ptr};
}

/// Three significant digits, and at least all digits in front of the point.
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

std::string significant(double value, int digits) {
  return to_text(value, std::chars_format::general, digits);
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

std::string share_text(double fraction) {
  const double size = std::abs(fraction) * 100;
  if (size != 0 && size < 1e-3) return scientific(fraction);
  return (size < 9.95 ? significant(fraction * 100, 2) : fixed(fraction * 100, 0)) + " %";
}

std::string change(double ratio, int digits) {
  const std::string text = percent(ratio - 1, digits);
  return text.starts_with('-') || text.find_first_not_of("0. %") == std::string::npos ? text : "+" + text;
}
}  // namespace optrush
