#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/numbers/statistics.h"
#include "base/number_text.h"

namespace optrush {
/// Text for an unknown number.
inline const std::string kUnknown = "—";

/// A ratio without its interval, with as many digits: "2.07x", near 1 "1.004x".
std::string value_text(const Ratio&);
/// A ratio with its interval: "2.07x [1.98, 2.16]", near 1 "1.004x [1.002, 1.006]".
std::string interval_text(const Ratio&);
/// Only the interval: "[1.98, 2.16]".
std::string range_text(const Ratio&);
/// "2.07x", "1.020x"
std::string ratio_only(double);
/// "2.07x [1.98, 2.16]", "1.00x [0.98, 1.02] no difference", "1.0x [0.8, 1.2] undecided", "2.07x (2 rounds,
/// no claim)".
std::string ratio_text(const Ratio&);

/// The same for a table, where an undecided ratio must not look like an answer: "undecided [0.95, 1.07]", "no
/// difference [0.99, 1.01]".
std::string ratio_cell(const Ratio&);
/// "+0.0120 [+0.0040, +0.0200]": the difference of losses whose perplexities have this ratio.
std::string difference_text(const Ratio& perplexity);

/// "validation loss", "training loss"
std::string loss_name(bool validated);

/// A name in a sentence; in quotes if it contains a comma: "'2 ranks, strong'".
std::string name_in_text(const std::string& name);
/// Names by what they have in common, in order of its first name.
using NamesBy = std::vector<std::pair<std::string, std::vector<std::string>>>;
void add_name(NamesBy&, const std::string& common, const std::string& name);
/// For example "bf16, '2 ranks, strong', LoRA".
std::string listed_names(const std::vector<std::string>& names);

/// format(value), or "—".
template <class T, class Format>
std::string or_unknown(const std::optional<T>& value, Format format) {
  return value ? format(*value) : kUnknown;
}

/// Text for a cell of a Markdown table: one line, with characters of Markdown and HTML escaped.
std::string markdown_cell(std::string_view text);
/// Text for an HTML element or attribute, escaped.
std::string html_text(std::string_view text);
/// A CSV field (RFC 4180), quoted if necessary.
std::string csv_field(std::string_view text);
/// Number of characters, to align columns on a terminal.
size_t characters(std::string_view utf8);
}  // namespace optrush
