#include <algorithm>

#include "analysis/numbers/format.h"
#include "base/text.h"
#include "report/sections/document.h"
#include "report/writers/writers.h"

namespace optrush {
namespace {
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
