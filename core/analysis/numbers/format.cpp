#include "analysis/numbers/format.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "analysis/numbers/verdict.h"
#include "base/text.h"

namespace optrush {
namespace {
/// Near 1, three digits are needed to see a difference.
int digits_near(double value) { return std::abs(value - 1) < 0.05 ? 3 : 2; }

/// Enough digits that an interval without 1 does not look as if it contained 1.
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

std::string range_text(const Ratio& ratio) {
  const int digits = digits_of(ratio);
  return "[" + fixed(ratio.interval->low, digits) + ", " + fixed(ratio.interval->high, digits) + "]";
}

std::string value_text(const Ratio& ratio) { return fixed(ratio.value, digits_of(ratio)) + "x"; }

std::string interval_text(const Ratio& ratio) { return value_text(ratio) + " " + range_text(ratio); }

std::string ratio_text(const Ratio& ratio) {
  if (ratio.same_run) return std::string(to_string(Outcome::same_run));
  if (!ratio.interval) return value_text(ratio) + " (" + counted(ratio.rounds, "round") + ", no claim)";
  const Outcome outcome = verdict_of(ratio).outcome;
  return interval_text(ratio) + (ratio.claim() ? "" : " " + std::string(to_string(outcome)));
}

std::string difference_text(const Ratio& perplexity) {
  const auto digits = [](double ratio) { return (ratio >= 1 ? "+" : "") + fixed(std::log(ratio), 4); };
  std::string text = digits(perplexity.value);
  if (perplexity.interval)
    text += " [" + digits(perplexity.interval->low) + ", " + digits(perplexity.interval->high) + "]";
  return text;
}

std::string ratio_cell(const Ratio& ratio) {
  const Outcome outcome = verdict_of(ratio).outcome;
  if (outcome != Outcome::alike && outcome != Outcome::undecided) return ratio_text(ratio);
  return std::string(to_string(outcome)) + " " + range_text(ratio);
}

std::string loss_name(bool validated) { return validated ? "validation loss" : "training loss"; }

std::string name_in_text(const std::string& name) {
  return name.find(',') == std::string::npos ? name : "'" + name + "'";
}

void add_name(NamesBy& all, const std::string& common, const std::string& name) {
  auto known = std::ranges::find(all, common, &NamesBy::value_type::first);
  if (known == all.end()) known = all.insert(known, {common, {}});
  known->second.push_back(name);
}

std::string listed_names(const std::vector<std::string>& names) {
  return join(texts_of(names, name_in_text));
}

std::string markdown_cell(std::string_view text) {
  const auto in_word = [&](size_t i) {
    return i < text.size() && std::isalnum(static_cast<unsigned char>(text[i])) != 0;
  };
  // Escapes only where needed, because people also read the file.
  const auto special = [&](size_t i) {
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    switch (text[i]) {
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
        return std::string_view("\\|`*~$").find(text[i]) != std::string_view::npos;
    }
  };
  std::string cell;
  for (size_t i = 0; i < text.size(); ++i) {
    if (special(i)) cell += '\\';
    cell += text[i];
  }
  return filled_in(std::move(cell),
                   {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\n", "<br>"}, {"\r", " "}, {"\t", " "}});
}

std::string html_text(std::string_view text) {
  return filled_in(std::string(text),
                   {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  return "\"" + filled_in(std::string(text), {{"\"", "\"\""}}) + "\"";
}

size_t characters(std::string_view utf8) {
  return static_cast<size_t>(
      std::ranges::count_if(utf8, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}
}  // namespace optrush
