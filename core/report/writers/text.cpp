// Plain text and Markdown.
#include <algorithm>
#include <numeric>

#include "analysis/numbers/format.h"
#include "base/printable.h"
#include "base/text.h"
#include "report/sections/document.h"
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

std::string row_of(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const auto& cell : cells) line += " " + cell + " |";
  return line + "\n";
}

std::string markdown_section(const Section& section, const std::vector<std::string>& charts) {
  std::string text;
  const bool folded = !section.title.empty() && !section.open;
  if (folded)
    text += "<details>\n<summary><b>" + html_text(section.title) + "</b> " + html_text(section.lead) +
            "</summary>\n\n";
  else if (!section.title.empty())
    text += "## " + section.title + "\n\n";
  if (!folded && !section.lead.empty()) text += markdown_cell(section.lead) + "\n\n";
  for (const auto& paragraph : section.paragraphs) text += markdown_cell(paragraph) + "\n\n";
  if (std::ranges::find(charts, section.chart) != charts.end())
    text += "![" + section.chart + "](" + section.chart + ".svg)\n\n" +
            (section.caption.empty() ? "" : markdown_cell(section.caption) + "\n\n");
  if (section.table) text += markdown_table(*section.table);
  for (const auto& bullet : section.bullets) text += "- " + markdown_cell(bullet) + "\n";
  for (const auto& link : section.links)
    text += "- [" + markdown_cell(link.text) + "](" + markdown_cell(link.file) + ")\n";
  if (!section.bullets.empty() || !section.links.empty()) text += "\n";
  return folded ? text + "</details>\n\n" : text;
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

std::string markdown_table(const Table& table) {
  using Column = Table::Column;
  const auto title = [](const Column& column) { return markdown_cell(column.title); };
  const auto rule = [](const Column& column) { return column.number ? "---:" : ":---"; };
  std::string text = row_of(texts_of(table.columns, title)) + row_of(texts_of(table.columns, rule));
  for (const auto& row : table.rows) {
    std::vector<std::string> cells = texts_of(row, markdown_cell);
    const auto number = static_cast<size_t>(&row - &table.rows.front());
    for (const Bars& bars : table.bars)
      // all bars have the same width
      if (bars.place(number)) cells[bars.column] += " `" + bars.text(number) + "`";
    text += row_of(cells);
  }
  return text + "\n";
}

std::string markdown(const Document& document, const std::vector<std::string>& charts) {
  std::string text = "# " + markdown_cell(document.title) + "\n\n";
  if (!document.question.empty()) text += "*" + markdown_cell(document.question) + "*\n\n";
  if (!document.byline.empty()) text += markdown_cell(document.byline) + "\n\n";
  text += "**" + markdown_cell(document.headline) + "**\n\n";
  for (const auto& warning : document.warnings) text += "> Warning: " + markdown_cell(warning) + "\n\n";
  text += markdown_section(document.top, charts);
  for (const auto& section : document.sections) text += markdown_section(section, charts);
  while (text.ends_with("\n\n")) text.pop_back();
  return text;
}
}  // namespace optrush
