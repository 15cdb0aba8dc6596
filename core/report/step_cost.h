#pragma once
#include <optional>
#include <string>
#include <vector>

#include "optrush/json.h"
#include "report/document.h"

namespace optrush {
/// "costs" of a result or of a plan, null or missing: none. Unknown keys are left to the reader of the JSON.
std::optional<StepCost> step_cost_from(const Json& costs);

/// One rung of the table of costs.
struct CostLine {
  std::string rung;
  std::optional<StepCost> cost;
  std::optional<PlannedMemory> memory;
  std::string why_not;  ///< nothing is known of its cost
};
/// rung | launches | host waits | copies | casts | of weights | elementwise | matmuls | attention | peak,
/// and reserved where a plan is for a GPU
Table cost_table(const std::vector<CostLine>&);
/// What the numbers of the table mean, one sentence each.
std::vector<std::string> cost_remarks(const std::vector<CostLine>&);
/// The lines of experiments that were planned, by what a plan predicts.
CostLine planned_cost(const std::string& rung, const Json& plan);
/// "What a step costs a GPU" in a report.
Section cost_section(const Analysis&);
}  // namespace optrush
