#include <algorithm>

#include "base/suggest.h"
#include "report/numbers/format.h"
#include "report/sections/document.h"

namespace optrush {
namespace {
double sum_of(const Phases& phases) {
  double sum = 0;
  for (const auto& [name, seconds] : phases) sum += seconds.value_or(0);
  return sum;
}

/// For example "A step of checkpointing is 24 % forward, 75 % backward, 1 % optimizer."
std::string phase_lead(const Row& row) {
  std::vector<std::string> shares;
  for (const auto& [name, seconds] : row.phases)
    if (const double share = seconds.value_or(0) / sum_of(row.phases); share >= 0.005)
      shares.push_back(percent(share, 0) + " " + name);
  return "A step of " + row.name + " is " + join(shares) + ".";
}
}  // namespace

std::vector<const Row*> rows_with_phases(const std::vector<const Row*>& rows) {
  std::vector<const Row*> found = rows;
  std::erase_if(found, [](const Row* row) { return !row->ok() || sum_of(row->phases) <= 0; });
  return found;
}

Section phase_section(const Analysis&, const Family& family) {
  const auto rows = rows_with_phases(family.rows);
  if (rows.empty()) return {};
  Section section{.title = title_for("Phases of a step", family),
                  .lead = phase_lead(*rows.back()),
                  .chart = "phases" + family.suffix,
                  .caption = "The chart shows the median time of each phase of a step."};
  Table table{{{"rung"}}, {}};
  std::vector<std::string> names;
  for (const Row* row : rows)
    for (const auto& [name, seconds] : row->phases)
      if (seconds && *seconds > 0 && std::ranges::find(names, name) == names.end()) names.push_back(name);
  for (const auto& name : names) table.columns.push_back({name, true});
  for (const Row* row : rows) {
    std::vector<std::string> cells = {row->name};
    for (const auto& name : names) {
      const auto phase = std::ranges::find(row->phases, name, &Phases::value_type::first);
      cells.push_back(phase == row->phases.end() ? std::string(kUnknown)
                                                 : or_unknown(phase->second, duration));
    }
    table.rows.push_back(std::move(cells));
  }
  section.table = std::move(table);
  return section;
}
}  // namespace optrush
