#pragma once
#include <string>

#include "check/stack_check.h"
#include "results/status.h"

namespace optrush {
/// How a case ended.
struct CheckResult {
  CaseStatus status = CaseStatus::not_run;
  std::string detail;  ///< what was checked, or why not
};
/// Runs one case; whatever it throws becomes its result.
CheckResult run_case(const CheckCase&, at::Device, StackCheck& stacks);
}  // namespace optrush
