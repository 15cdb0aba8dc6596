#pragma once
#include <string_view>
#include <vector>

#include "report/analysis/quantities.h"

namespace optrush {
// The parts of quantities(), by subject. A new number is an entry in one of them: every output, its
// documentation included, is made from it.
/// Names of a rung, its status, and its device.
std::vector<Quantity> rung_quantities();
/// Speed and its ratios.
std::vector<Quantity> speed_quantities();
/// Peak memory, measured and predicted.
std::vector<Quantity> memory_quantities();
/// Utilization of the hardware.
std::vector<Quantity> hardware_quantities();
/// Phases of a step, and communication.
std::vector<Quantity> phase_quantities();
/// Costs of a step on a GPU.
std::vector<Quantity> step_cost_quantities();
/// Losses, and the results of the gate.
std::vector<Quantity> loss_quantities();
/// Costs of a run besides its steps: set-up, energy and money.
std::vector<Quantity> run_cost_quantities();
/// Published figures.
std::vector<Quantity> published_quantities();
/// Rates of operators and collectives, shown only in grids.
std::vector<Quantity> operator_quantities();

using MaybeNumber = std::optional<double>;

/// A member of a row.
template <auto Member>
MaybeNumber field(const Analysis&, const Row& row) {
  return row.*Member;
}

/// A member of a run's result.
template <auto Member>
MaybeNumber member(const RunResult& run) {
  return run.*Member;
}

/// The value of a name in a list of pairs; none if it is missing.
template <class Pairs>
MaybeNumber value_named(const Pairs& pairs, std::string_view wanted) {
  for (const auto& [name, value] : pairs)
    if (name == wanted) return value;
  return std::nullopt;
}
}  // namespace optrush
