#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "report/statistics.h"

namespace optrush {
// Numbers as text, the same under every locale, and "—" for what is not known.
inline constexpr std::string_view kUnknown = "—";

/// "1234.50"
std::string fixed(double value, int digits);
/// "1,234.5"; three significant digits below 1,000, none behind the point above.
std::string grouped(double value);
/// "5.1e-03"
std::string scientific(double value, int digits = 1);
/// Shortest text that reads back as the same number, for CSV.
std::string exact_number(double value);
/// An amount in powers of two, "1.55 GiB", three significant digits.
std::string bytes(double value);
/// A rate in powers of ten, as data sheets have it: "20.5 GB/s".
std::string byte_rate(double per_second);
/// "420 GFLOP/s"
std::string flops_rate(double per_second);
/// "12.3 ms"
std::string duration(double seconds);
/// 0.123 is "12.3 %"
std::string percent(double fraction, int digits = 1);
/// A ratio as a change: 0.8 is "-20.0 %".
std::string change(double ratio, int digits = 1);
/// "2.07x [1.98, 2.16]", near 1 "1.004x [1.002, 1.006]"; of a ratio with an interval.
std::string interval_text(const Ratio&);
/// "2.07x", "1.020x"
std::string ratio_only(double);
/// "2.07x [1.98, 2.16]", "1.00x [0.98, 1.02] no difference", "1.0x [0.8, 1.2] undecided", "2.07x (2 rounds,
/// no claim)".
std::string ratio_text(const Ratio&);

/// format(value), or "—".
template <class T, class Format>
std::string or_unknown(const std::optional<T>& value, Format format) {
  return value ? format(*value) : std::string(kUnknown);
}

/// A cell of a markdown table: one line, and no character that markdown or HTML would take as its own.
std::string markdown_cell(std::string_view text);
/// Text of an HTML element or attribute.
std::string html_text(std::string_view text);
/// A CSV field by RFC 4180, quoted where it must be.
std::string csv_field(std::string_view text);
/// Number of characters, for columns on a terminal.
size_t characters(std::string_view utf8);
}  // namespace optrush
