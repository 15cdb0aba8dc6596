#include <algorithm>
#include <type_traits>

#include "report/analysis/compare.h"
#include "report/analysis/quantities.h"
#include "report/numbers/format.h"
#include "report/sections/document.h"
#include "report/writers/text_table.h"
#include "report/writers/writers.h"

namespace optrush {
namespace {
using Cell = ComparedReports::Cell;

std::string status_of(const Cell& cell) { return std::string(to_string(cell.status)); }

/// A value of every report, beside its ratio to the first (nullptr: without); the status instead of a value
/// where a rung did not end well.
template <class Value, class Ratio>
Table comparison_table(const ComparedReports& compared, const std::string& what, Value value, Ratio ratio) {
  constexpr bool kRatios = !std::is_same_v<Ratio, std::nullptr_t>;
  const auto& reports = compared.reports;
  Table table{{{"rung"}}, {}};
  for (const auto& report : reports) {
    table.columns.push_back({report.name + " " + what, true});
    if (kRatios && &report != &reports.front())
      table.columns.push_back({report.name + " over " + reports.front().name, true});
  }
  for (const auto& line : compared.lines) {
    std::vector<std::string> cells = {line.rung};
    for (size_t i = 0; i < line.cells.size(); ++i) {
      const auto& cell = line.cells[i];
      const bool ok = cell && cell->status == Status::ok;
      cells.push_back(!cell ? std::string(kUnknown) : ok ? value(*cell) : status_of(*cell));
      if constexpr (kRatios)
        if (i > 0) cells.push_back(ok ? ratio(*cell) : std::string(kUnknown));
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

std::string number_text_of(const Cell& cell, const char* name) {
  return or_unknown(cell.numbers.at(name), [&](double x) { return text_of(quantity(name).unit, x); });
}

Table speeds(const ComparedReports& compared) {
  return comparison_table(
      compared, quantity("tokens_per_second").title,
      [](const Cell& cell) { return number_text_of(cell, "tokens_per_second"); },
      [](const Cell& cell) {
        return or_unknown(cell.speed, ratio_text) + (cell.differs.empty() ? "" : " †");
      });
}

Table memories(const ComparedReports& compared) {
  return comparison_table(
      compared, "active memory",
      [](const Cell& cell) { return number_text_of(cell, "peak_allocated_bytes"); },
      [](const Cell& cell) {
        return or_unknown(cell.memory_ratio, [](double ratio) { return change(ratio); });
      });
}

Table numbers(const ComparedReports& compared, const char* name) {
  return comparison_table(
      compared, quantity(name).title, [&](const Cell& cell) { return number_text_of(cell, name); }, nullptr);
}

bool any(const ComparedReports& compared, const auto& has) {
  return std::ranges::any_of(compared.lines, [&](const auto& line) {
    return std::ranges::any_of(line.cells, [&](const auto& cell) { return cell && has(*cell); });
  });
}

/// What only some reports have: tokens that are processed and not trained on, validations, a target.
std::vector<std::pair<std::string, Table>> more_tables(const ComparedReports& compared) {
  std::vector<std::pair<std::string, Table>> tables;
  if (any(compared, [](const Cell& cell) { return cell.trains_on_fewer; })) {
    tables.emplace_back("Tokens trained", numbers(compared, "trained_tokens_per_second"));
    tables.emplace_back("Padding", numbers(compared, "padding"));
  }
  if (any(compared, [](const Cell& cell) { return cell.numbers.at("validation_loss").has_value(); }))
    tables.emplace_back("Validation loss", numbers(compared, "validation_loss"));
  if (any(compared, [](const Cell& cell) { return cell.time_to_loss.has_value(); }))
    tables.emplace_back(
        "Time to loss",
        comparison_table(
            compared, "time to loss", [](const Cell& cell) { return text_of(cell.time_to_loss); }, nullptr));
  return tables;
}

Table context(const ComparedReports& compared) {
  Table table{{{"context"}}, {}};
  for (const auto& report : compared.reports) table.columns.push_back({report.name});
  for (const auto& fact : compared.facts) {
    std::vector<std::string> cells = {fact.key};
    cells.insert(cells.end(), fact.texts.begin(), fact.texts.end());
    table.rows.push_back(std::move(cells));
  }
  return table;
}

std::vector<std::string> remarks(const ComparedReports& compared) {
  std::vector<std::string> remarks;
  for (const auto& line : compared.lines)
    for (size_t i = 0; i < line.cells.size(); ++i)
      if (line.cells[i] && !line.cells[i]->differs.empty())
        remarks.push_back("† " + line.rung + ": not like for like in " + compared.reports[i].name + ": " +
                          line.cells[i]->differs);
  return remarks;
}

constexpr const char* kSameContext = "the context is the same";
}  // namespace

std::string comparison_text(const ComparedReports& compared) {
  std::string text;
  for (const auto& report : compared.reports) text += report.name + ": " + report.folder.string() + "\n";
  text += "\n" + (compared.facts.empty() ? std::string(kSameContext) + "\n" : text_table(context(compared)));
  text += "\n" + text_table(speeds(compared));
  for (const auto& remark : remarks(compared)) text += remark + "\n";
  text += "\n" + text_table(memories(compared));
  for (const auto& [title, table] : more_tables(compared)) text += "\n" + text_table(table);
  return text;
}

std::string comparison_markdown(const ComparedReports& compared) {
  std::string text = "# Comparison\n\n";
  for (const auto& report : compared.reports)
    text += "- " + report.name + ": " + markdown_cell(report.folder.string()) + ": " +
            markdown_cell(report.finding) + "\n";
  text += "\n## Speed\n\n" + markdown_table(speeds(compared));
  for (const auto& remark : remarks(compared)) text += "- " + markdown_cell(remark) + "\n";
  if (!remarks(compared).empty()) text += "\n";
  text += "## Peak active memory\n\n" + markdown_table(memories(compared));
  for (const auto& [title, table] : more_tables(compared))
    text += "## " + title + "\n\n" + markdown_table(table);
  text += "## What differs\n\n";
  return text +
         (compared.facts.empty() ? std::string(kSameContext) + "\n" : markdown_table(context(compared)));
}

namespace {
Json cell_json(const std::optional<Cell>& cell) {
  if (!cell) return nullptr;
  const auto or_null = [](const std::optional<double>& value) { return value ? Json(*value) : Json(); };
  Json json = {{"status", status_of(*cell)},
               {"speed_vs_first", ratio_json(cell->speed)},
               {"memory_vs_first", or_null(cell->memory_ratio)},
               {"differs", cell->differs},
               {"time_to_loss", json_of(cell->time_to_loss)}};
  for (const auto& [name, value] : cell->numbers) json[quantity(name).compared] = or_null(value);
  return json;
}
}  // namespace

Json comparison_json(const ComparedReports& compared) {
  Json reports = Json::array(), facts = Json::array(), rungs = Json::array();
  for (const auto& report : compared.reports)
    reports.push_back(
        {{"name", report.name}, {"folder", report.folder.string()}, {"finding", report.finding}});
  for (const auto& fact : compared.facts) facts.push_back({{"key", fact.key}, {"values", fact.values}});
  for (const auto& line : compared.lines) {
    Json cells = Json::array();
    for (const auto& cell : line.cells) cells.push_back(cell_json(cell));
    rungs.push_back({{"rung", line.rung}, {"reports", cells}});
  }
  return {{"schema_version", 1}, {"reports", reports}, {"context", facts}, {"rungs", rungs}};
}
}  // namespace optrush
