#pragma once
#include "results/run_result.h"

namespace optrush {
/// Sets fields that a stored step leaves out because they follow from others: a program without padding need
/// not count positions. Throws an Error if the counts are impossible.
void complete(StepResult&);
}  // namespace optrush
