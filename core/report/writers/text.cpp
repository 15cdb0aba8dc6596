#include <algorithm>

#include "base/printable.h"
#include "report/numbers/format.h"
#include "report/writers/writers.h"

namespace optrush {
namespace {
std::string padded(const std::string& text, size_t width, bool to_the_right) {
  const std::string space(width - std::min(width, characters(text)), ' ');
  return to_the_right ? space + text : text + space;
}

std::string text_section(const Section& section) {
  std::string text;
  for (const auto& paragraph : section.paragraphs) text += printable(paragraph) + "\n";
  if (section.table) text += (text.empty() ? "" : "\n") + text_table(*section.table);
  for (const auto& bullet : section.bullets) text += printable(bullet) + "\n";
  return text;
}
}  // namespace

std::string text_table(const Table& table) {
  const size_t n = table.columns.size();
  std::vector<std::vector<std::string>> lines(1 + table.rows.size());
  std::vector<size_t> widths(n);
  for (size_t i = 0; i < n; ++i) {
    lines[0].push_back(table.columns[i].title);
    for (size_t row = 0; row < table.rows.size(); ++row) {
      std::string cell = printable(table.rows[row][i]);
      for (const Bars& bars : table.bars)
        if (bars.column == i) cell += " " + bars.text(row);
      lines[row + 1].push_back(std::move(cell));
    }
    for (const auto& line : lines) widths[i] = std::max(widths[i], characters(line[i]));
  }
  std::string text;
  for (const auto& line : lines) {
    std::string row;
    for (size_t i = 0; i < n; ++i)
      row += (i == 0 ? "" : "  ") + padded(line[i], widths[i], table.columns[i].number);
    text += row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string text(const Document& document) {
  std::string text = printable(document.headline) + "\n";
  for (const auto& warning : document.warnings) text += "Warning: " + printable(warning) + "\n";
  text += "\n" + text_section(document.top);
  for (const auto& section : document.sections) {
    text +=
        "\n" + printable(section.title) + (section.lead.empty() ? "" : ": " + printable(section.lead)) + "\n";
    text += text_section(section);
  }
  return text;
}
}  // namespace optrush
