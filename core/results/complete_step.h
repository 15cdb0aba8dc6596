#pragma once
#include "results/run_result.h"

namespace optrush {
/// What a step that was read leaves to be derived: a program that masks nothing need not count positions. An
/// Error where the counts can't be.
void complete(StepResult&);
}  // namespace optrush
