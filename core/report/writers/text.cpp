#include <algorithm>
#include <numeric>

#include "analysis/numbers/format.h"
#include "base/printable.h"
#include "base/text.h"
#include "report/writers/writers.h"

namespace optrush {
namespace {
std::string padded(const std::string& text, size_t width, bool to_the_right) {
  const std::string space(width - std::min(width, characters(text)), ' ');
  return to_the_right ? space + text : text + space;
}

/// The lines of a text that breaks at spaces. A longer word has a line alone. `width` 0: one line.
std::vector<std::string> lines_of(const std::string& text, size_t width) {
  std::vector<std::string> lines = {""};
  if (width == 0) return {text};
  const auto words = split(text, " ");
  for (size_t i = 0; i < words.size(); ++i) {
    std::string& line = lines.back();
    if (!line.empty() && characters(line) + 1 + characters(words[i]) > width)
      lines.push_back(words[i]);
    else
      line += (i == 0 ? "" : " ") + words[i];
  }
  return lines;
}

using Cells = std::vector<std::vector<std::string>>;

/// The widths of the columns. If they are wider than `most` together, the widest become narrower, down to
/// their longest words.
std::vector<size_t> widths_of(const Cells& lines, size_t most) {
  std::vector<size_t> widths(lines.front().size()), least = widths;
  for (const auto& line : lines)
    for (size_t i = 0; i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], characters(line[i]));
      for (const auto& word : lines_of(line[i], 1)) least[i] = std::max(least[i], characters(word));
    }
  size_t sum = std::accumulate(widths.begin(), widths.end(), 2 * (widths.size() - 1));
  for (size_t widest = 0; most > 0 && sum > most; --sum, --widths[widest]) {
    for (size_t i = 0; i < widths.size(); ++i)
      if (widths[i] > least[i] && (widths[i] > widths[widest] || widths[widest] == least[widest])) widest = i;
    if (widths[widest] == least[widest]) break;
  }
  return widths;
}
}  // namespace

std::string text_lines(const std::string& text, size_t width) {
  return join(lines_of(printable(text), width), "\n") + "\n";
}

std::string text_table(const Table& table, size_t width) {
  const size_t n = table.columns.size();
  Cells lines(1 + table.rows.size());
  for (size_t i = 0; i < n; ++i) {
    lines[0].push_back(table.columns[i].title);
    for (size_t row = 0; row < table.rows.size(); ++row) {
      std::string cell = printable(table.rows[row][i]);
      for (const Bars& bars : table.bars)
        if (bars.column == i) cell += " " + bars.text(row);
      lines[row + 1].push_back(std::move(cell));
    }
  }
  const auto widths = widths_of(lines, width);
  std::string text;
  for (const auto& line : lines) {
    Cells parts;
    size_t height = 1;
    for (size_t i = 0; i < n; ++i) {
      parts.push_back(lines_of(line[i], characters(line[i]) > widths[i] ? widths[i] : 0));
      height = std::max(height, parts.back().size());
    }
    for (size_t part = 0; part < height; ++part) {
      std::string row;
      for (size_t i = 0; i < n; ++i)
        row += (i == 0 ? "" : "  ") +
               padded(part < parts[i].size() ? parts[i][part] : "", widths[i], table.columns[i].number);
      text += row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
    }
  }
  return text;
}

std::string text(const Document& document, size_t width) {
  const auto body = [&](const Section& section) {
    std::string text;
    for (const auto& paragraph : section.paragraphs) text += text_lines(paragraph, width);
    if (section.table) text += (text.empty() ? "" : "\n") + text_table(*section.table, width);
    for (const auto& bullet : section.bullets) text += text_lines(bullet, width);
    return text;
  };
  std::string text = text_lines(document.headline, width);
  for (const auto& warning : document.warnings) text += text_lines("Warning: " + warning, width);
  text += "\n" + body(document.top);
  for (const auto& section : document.sections)
    text += "\n" + text_lines(section.title + (section.lead.empty() ? "" : ": " + section.lead), width) +
            body(section);
  return text;
}
}  // namespace optrush
