#pragma once
#include "check/stack_check.h"
#include "results/case_end.h"

namespace optrush {
/// Runs one case; whatever it throws becomes its end. Its seconds are left to the caller.
CaseEnd run_case(const CheckCase&, at::Device, StackCheck& stacks);
}  // namespace optrush
