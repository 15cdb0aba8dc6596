#pragma once
#include "analysis/analysis.h"
#include "analysis/variant_runs.h"

namespace optrush {
/// Computes the row of a variant from its runs: medians over rounds, and values that follow from them. The
/// gate and the comparison with other rows come later.
Row measured_row(const Stored&, const Variant&, const VariantRuns&);

/// The hardware of a run, in units of the hardware whose peak was measured. Each GPU is one unit. On a CPU it
/// is the number of threads of all ranks divided by the threads of the measurement, limited by the cores.
/// `ranks`: number of ranks that train.
double hardware_used(const Json& context, const RunResult&, int64_t ranks);

/// Reads "costs" of a result or a plan; none if null or missing. Ignores unknown keys.
std::optional<StepCost> step_cost_from(const Json& costs);
}  // namespace optrush
