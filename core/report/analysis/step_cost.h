#pragma once
#include <optional>
#include <string>
#include <vector>

#include "experiment/plan.h"
#include "optrush/json.h"
#include "results/run_result.h"

namespace optrush {
/// Reads "costs" of a result or a plan; none if null or missing. Ignores unknown keys.
std::optional<StepCost> step_cost_from(const Json& costs);

/// A rung in the table of costs.
struct CostLine {
  std::string rung;
  std::optional<StepCost> cost;
  std::optional<PlannedMemory> memory;
  std::string why_not;  ///< why its cost is not known
};
/// The line of a planned rung.
CostLine planned_cost(const std::string& rung, const std::optional<Plan>& plan);
}  // namespace optrush
