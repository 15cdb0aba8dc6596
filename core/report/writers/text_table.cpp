#include "report/writers/text_table.h"

#include <algorithm>

#include "base/printable.h"
#include "process/terminal.h"
#include "report/numbers/format.h"

namespace optrush {
namespace {
std::string padded(const std::string& text, size_t width, bool to_the_right) {
  const std::string space(width - std::min(width, characters(text)), ' ');
  return to_the_right ? space + text : text + space;
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
}  // namespace optrush
