#pragma once
#include "launch/runs.h"

namespace optrush {
/// Describes the machine, once per report, because all its runs are from one machine. Throws an Error if
/// earlier runs were made on another one. Stops at a signal.
void inspect_machine(Runs&);
/// Plans every variant. Stops at a signal.
void make_plans(Runs&);
}  // namespace optrush
