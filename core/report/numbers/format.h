#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/number_text.h"
#include "report/numbers/statistics.h"

namespace optrush {
/// What stands for a number that is not known.
inline constexpr std::string_view kUnknown = "—";

/// "2.07x [1.98, 2.16]", near 1 "1.004x [1.002, 1.006]"; of a ratio with an interval.
std::string interval_text(const Ratio&);
/// "[1.98, 2.16]" of that
std::string range_text(const Ratio&);
/// "2.07x", "1.020x"
std::string ratio_only(double);
/// "2.07x [1.98, 2.16]", "1.00x [0.98, 1.02] no difference", "1.0x [0.8, 1.2] undecided", "2.07x (2 rounds,
/// no claim)".
std::string ratio_text(const Ratio&);

/// The same as a table has it, where nothing that is undecided looks like an answer: "undecided
/// [0.95, 1.07]", "no difference [0.99, 1.01]".
std::string ratio_cell(const Ratio&);

/// A name as a sentence has it: in quotes where it holds a comma, "'2 ranks, strong'".
std::string name_in_text(const std::string& name);
/// "bf16, '2 ranks, strong', LoRA"
std::string listed_names(const std::vector<std::string>& names);

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
