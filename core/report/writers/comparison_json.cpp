#include "report/analysis/quantities.h"
#include "report/writers/writers.h"

namespace optrush {
namespace {
Json cell_json(const std::optional<ComparedReports::Cell>& cell) {
  if (!cell) return nullptr;
  const auto or_null = [](const std::optional<double>& value) { return value ? Json(*value) : Json(); };
  Json json = {{"status", std::string(to_string(cell->status))},
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
        {{"name", report.name}, {"folder", report.folder.string()}, {"headline", report.headline}});
  for (const auto& fact : compared.facts) facts.push_back({{"key", fact.key}, {"values", fact.values}});
  for (const auto& line : compared.lines) {
    Json cells = Json::array();
    for (const auto& cell : line.cells) cells.push_back(cell_json(cell));
    rungs.push_back({{"rung", line.rung}, {"reports", cells}});
  }
  return {{"schema_version", 1},
          {"headline", headline(compared)},
          {"reports", reports},
          {"context", facts},
          {"rungs", rungs}};
}
}  // namespace optrush
