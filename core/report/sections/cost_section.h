#pragma once
#include <string>
#include <vector>

#include "report/sections/document.h"

namespace optrush {
/// A rung in the table of costs.
struct CostLine {
  std::string rung;
  std::optional<StepCost> cost;
  std::optional<PlannedMemory> memory;
  std::string why_not;  ///< why its cost is not known
};
/// The line of a planned rung.
CostLine planned_cost(const std::string& rung, const std::optional<Plan>& plan);

/// Columns: rung | casts | casts of a weight | elementwise | matmuls | attention | peak. On a GPU also
/// launches, host waits, copies and reserved.
Table cost_table(const std::vector<CostLine>&);
/// Explanations of the table, one sentence each.
std::vector<std::string> cost_remarks(const std::vector<CostLine>&);
/// The section "What a step costs" of a report.
Section cost_section(const Analysis&);
}  // namespace optrush
