#pragma once
#include "check/stack_check.h"
#include "results/case_end.h"

namespace optrush {
/// Runs a case; exceptions become its result. The caller sets the seconds.
CaseEnd run_case(const CheckCase&, const CheckContext&, StackCheck& stacks);
}  // namespace optrush
