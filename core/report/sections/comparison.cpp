#include <algorithm>

#include "analysis/compare.h"
#include "analysis/numbers/format.h"
#include "analysis/quantities.h"
#include "report/claims/claims.h"
#include "report/sections/document.h"

namespace optrush {
namespace {
using Cell = ComparedReports::Cell;
using Line = ComparedReports::Line;

/// The value, or the status if the rung failed.
template <class Value>
std::string cell_text(const std::optional<Cell>& cell, Value value) {
  if (!cell) return kUnknown;
  return cell->status == Status::ok ? value(*cell) : std::string(to_string(cell->status));
}

/// A value from the report `i`.
template <class Value>
void add_report(Table& table, const ComparedReports& compared, size_t i, const std::string& what,
                Value value) {
  table.add({compared.reports[i].name + " " + what, true}, compared.lines,
            [&](const Line& line) { return cell_text(line.cells[i], value); });
}

Table table_of_rungs(const ComparedReports& compared) {
  Table table;
  table.add({"rung"}, compared.lines, &Line::rung);
  return table;
}

/// A value from every report.
template <class Value>
Table comparison_table(const ComparedReports& compared, const std::string& what, Value value) {
  Table table = table_of_rungs(compared);
  for (size_t i = 0; i < compared.reports.size(); ++i) add_report(table, compared, i, what, value);
  return table;
}

std::string number_text_of(const Cell& cell, const char* name) {
  return or_unknown(cell.numbers.at(name), [&](double x) { return text_of(quantity(name).unit, x); });
}

std::string speed_ratio(const Cell& cell) {
  return or_unknown(cell.speed, ratio_cell) + (cell.differs.empty() ? "" : " †");
}

/// The peak memory, and its change relative to the first report.
std::string memory_text(const Cell& cell) {
  const std::string change_text = cell.memory_ratio ? " (" + change(*cell.memory_ratio, 0) + ")" : "";
  return number_text_of(cell, "peak_allocated_bytes") + change_text;
}

std::string versus_first(const ComparedReports& compared, size_t i) {
  return compared.reports[i].name + " vs " + compared.reports[0].name;
}

/// Tokens/s of every report, the ratio to the first with its interval, and peak memory; for two reports in
/// one table.
std::vector<Table> main_tables(const ComparedReports& compared) {
  const size_t n = compared.reports.size();
  const auto tokens = [](const Cell& cell) { return number_text_of(cell, "tokens_per_second"); };
  Table speeds = table_of_rungs(compared);
  for (size_t i = 0; i < n; ++i) {
    add_report(speeds, compared, i, "tokens/s", tokens);
    if (i == 0) continue;
    Bars& bars = speeds.bars.emplace_back(speeds.columns.size());
    for (const Line& line : compared.lines)
      bars.intervals.push_back(line.cells[i] && line.cells[i]->speed ? line.cells[i]->speed->interval
                                                                     : std::nullopt);
    speeds.add({versus_first(compared, i), true}, compared.lines,
               [&](const Line& line) { return or_unknown(line.cells[i], speed_ratio); });
  }
  if (n > 2) return {std::move(speeds), comparison_table(compared, "memory", memory_text)};
  for (size_t i = 0; i < n; ++i) add_report(speeds, compared, i, "memory", memory_text);
  return {std::move(speeds)};
}

Table numbers(const ComparedReports& compared, const char* name) {
  return comparison_table(compared, quantity(name).title,
                          [&](const Cell& cell) { return number_text_of(cell, name); });
}

bool any(const ComparedReports& compared, const auto& has) {
  return std::ranges::any_of(compared.lines, [&](const auto& line) {
    return std::ranges::any_of(line.cells, [&](const auto& cell) { return cell && has(*cell); });
  });
}

/// Tables for numbers that only some reports have: tokens without a loss, validations, a target.
std::vector<std::pair<std::string, Table>> more_tables(const ComparedReports& compared) {
  std::vector<std::pair<std::string, Table>> tables;
  if (any(compared, [](const Cell& cell) { return cell.over_base.has_value(); })) {
    Table table = comparison_table(compared, "over base", [](const Cell& cell) {
      return or_unknown(cell.base_speed, [](const Ratio& speed) { return ratio_only(speed.value); });
    });
    const auto over_base = [](const Cell& cell) { return or_unknown(cell.over_base, ratio_cell); };
    for (size_t i = 1; i < compared.reports.size(); ++i)
      table.add({versus_first(compared, i), true}, compared.lines,
                [&](const Line& line) { return cell_text(line.cells[i], over_base); });
    tables.emplace_back("Speed over the base", std::move(table));
  }
  if (any(compared, [](const Cell& cell) { return cell.trains_on_fewer; })) {
    tables.emplace_back("Tokens trained", numbers(compared, "trained_tokens_per_second"));
    tables.emplace_back("Padding", numbers(compared, "padding"));
  }
  if (any(compared, [](const Cell& cell) { return cell.numbers.at("validation_loss").has_value(); }))
    tables.emplace_back("Validation loss", numbers(compared, "validation_loss"));
  if (any(compared, [](const Cell& cell) { return cell.time_to_loss.has_value(); }))
    tables.emplace_back("Time to loss", comparison_table(compared, "time to loss", [](const Cell& cell) {
                          return text_of(cell.time_to_loss);
                        }));
  return tables;
}

Table context_table(const ComparedReports& compared) {
  Table table;
  table.add({"context"}, compared.facts, &ComparedReports::Fact::key);
  for (size_t i = 0; i < compared.reports.size(); ++i)
    table.add({compared.reports[i].name}, compared.facts,
              [&](const ComparedReports::Fact& fact) { return fact.texts[i]; });
  return table;
}

std::vector<std::string> remarks(const ComparedReports& compared) {
  std::vector<std::string> remarks;
  for (const auto& line : compared.lines)
    for (size_t i = 0; i < line.cells.size(); ++i)
      if (line.cells[i] && !line.cells[i]->differs.empty())
        remarks.push_back("† " + name_in_text(line.rung) + " is not like for like in " +
                          compared.reports[i].name + ": " + line.cells[i]->differs + ".");
  return remarks;
}
}  // namespace

void add_answer(const Analysis& a, ComparedReports::Report& report) {
  report.headline = headline(a);
  report.warnings = warnings_of(a);
}

Document comparison_document(const ComparedReports& compared) {
  Document document{.title = "Comparison", .headline = headline(compared)};
  std::vector<Table> tables = main_tables(compared);
  for (const auto& report : compared.reports)
    document.top.paragraphs.push_back(report.name + " (" + report.folder.string() + "): " + report.headline);
  for (const auto& report : compared.reports)
    for (const auto& warning : report.warnings) document.warnings.push_back(report.name + ": " + warning);
  document.top.table = std::move(tables.front());
  document.top.bullets = remarks(compared);
  if (tables.size() > 1)
    document.sections.push_back({.title = "Memory",
                                 .lead = "This table compares peak memory with that of the first report.",
                                 .table = std::move(tables.back())});
  for (auto& [title, table] : more_tables(compared))
    document.sections.push_back({.title = title, .table = std::move(table)});
  Section& context = document.sections.emplace_back(Section{.title = "What differs"});
  context.lead = "The context is the same.";
  if (compared.facts.empty()) return document;
  context.lead = "This table lists the differences of machine, settings and plugins.";
  context.table = context_table(compared);
  return document;
}
}  // namespace optrush
