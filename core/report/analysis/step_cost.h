#pragma once
#include <optional>
#include <string>
#include <vector>

#include "experiment/plan.h"
#include "optrush/json.h"
#include "results/run_result.h"

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
/// The lines of experiments that were planned, by what a plan predicts.
CostLine planned_cost(const std::string& rung, const std::optional<Plan>& plan);
}  // namespace optrush
