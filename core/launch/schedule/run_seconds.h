#pragma once
#include <cstdint>

#include "results/run_result.h"

namespace optrush {
/// Seconds of a run with `steps` steps that otherwise equals this one, which must have step times.
double seconds_of(const RunResult&, int64_t steps);
}  // namespace optrush
