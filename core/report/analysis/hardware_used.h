#pragma once
#include "results/run_result.h"

namespace optrush {
/// What a run computes with, in units of the hardware whose peak was measured: each rank's GPU is one; the
/// ranks of a CPU are their threads over those of the measurement, where there are cores for them.
/// `ranks`: that train.
double hardware_used(const Json& context, const RunResult&, int64_t ranks);
}  // namespace optrush
