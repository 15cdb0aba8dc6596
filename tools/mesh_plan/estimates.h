#pragma once
#include <optional>
#include <string>
#include <vector>

#include "analysis/analysis.h"
#include "mesh_plan/mesh_plan.h"

namespace optrush::mesh_plan {
/// The step of a row with several ranks, estimated from the phases of one device and a link, and measured.
struct Estimate {
  std::string rung, from;  ///< names of the row, and of the row of one device
  PlannedConfig planned;
  double measured = 0;         ///< seconds of a step
  std::optional<double> sent;  ///< bytes counted in a step, of the rank that sends the most

  double estimated_sent() const;

  double estimated() const { return planned.cost.step(); }
  double error() const { return estimated() / measured - 1; }
};

/// Estimates every row of several ranks that has a matching row of one device: one without plugins that the
/// row lacks. Of these it takes the one with the most plugins. The links are `hardware`'s.
std::vector<Estimate> estimates_of(const Analysis&, const Hardware&);
}  // namespace optrush::mesh_plan
