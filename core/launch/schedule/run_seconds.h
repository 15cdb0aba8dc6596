#pragma once
#include <cstdint>

#include "results/run_result.h"

namespace optrush {
/// Seconds of a run with so many steps that starts and trains as this one did, which has step times.
double seconds_of(const RunResult&, int64_t steps);
}  // namespace optrush
