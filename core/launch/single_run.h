#pragma once
#include <optional>

#include "launch/runs.h"

namespace optrush {
/// Runs a job alone. It continues from the state that an interrupted start has saved, and starts again after
/// faults, up to Experiment::max_restarts times. None after a signal.
std::optional<RunResult> run_alone(Runs&, Job);
}  // namespace optrush
