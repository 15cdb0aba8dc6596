#pragma once
#include <string_view>
#include <vector>

#include "report/analysis/quantities.h"

namespace optrush {
// quantities() in parts, by what the quantities are about.
/// The names of a rung, how it ended, and what it ran on.
std::vector<Quantity> rung_quantities();
/// Speed, and its ratios to other rungs.
std::vector<Quantity> speed_quantities();
/// Peak memory, measured and predicted.
std::vector<Quantity> memory_quantities();
/// How much of the hardware a rung uses.
std::vector<Quantity> hardware_quantities();
/// The time of a step by its phases, and what a rank sends.
std::vector<Quantity> phase_quantities();
/// What a step costs a GPU.
std::vector<Quantity> step_cost_quantities();
/// Losses, and how the correctness gate found them.
std::vector<Quantity> loss_quantities();
/// What a run costs beside its steps: set-up, energy and money.
std::vector<Quantity> run_cost_quantities();
/// What others published of a rung.
std::vector<Quantity> published_quantities();
/// Rates of operators and collectives, which only grids show.
std::vector<Quantity> operator_quantities();

using MaybeNumber = std::optional<double>;

/// A number of a row as it is.
template <auto Member>
MaybeNumber field(const Analysis&, const Row& row) {
  return row.*Member;
}

/// The value of a name in a list of pairs; none where the list lacks it.
template <class Pairs>
MaybeNumber value_named(const Pairs& pairs, std::string_view wanted) {
  for (const auto& [name, value] : pairs)
    if (name == wanted) return value;
  return std::nullopt;
}
}  // namespace optrush
