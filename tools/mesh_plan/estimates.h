#pragma once
#include <optional>
#include <string>
#include <vector>

#include "mesh_plan/mesh_plan.h"
#include "report/analysis/analysis.h"

namespace optrush::mesh_plan {
/// The step of a row of several ranks: estimated from one device's phases and a link, and measured.
struct Estimate {
  std::string rung, from;  ///< its name, and that of the row of one device
  PlannedConfig planned;
  double measured = 0;         ///< seconds of its step
  std::optional<double> sent;  ///< bytes of a step, counted; of the rank that sends most

  double estimated_sent() const;

  double estimated() const { return planned.cost.step(); }
  double error() const { return estimated() / measured - 1; }
};

/// Of every row of several ranks that has a row of one device with no plugin that it lacks; of those the one
/// with the most plugins. Links are those of `hardware`.
std::vector<Estimate> estimates_of(const Analysis&, const Hardware&);
}  // namespace optrush::mesh_plan
