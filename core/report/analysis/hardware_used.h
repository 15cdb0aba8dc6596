#pragma once
#include "results/run_result.h"

namespace optrush {
/// The hardware of a run, in units of the hardware whose peak was measured. Each GPU is one unit. On a CPU it
/// is the number of threads of all ranks divided by the threads of the measurement, limited by the cores.
/// `ranks`: number of ranks that train.
double hardware_used(const Json& context, const RunResult&, int64_t ranks);
}  // namespace optrush
