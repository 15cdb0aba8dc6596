#pragma once
#include <string>

#include "check/stack_check.h"

namespace optrush {
/// How a case ended. A stack that its plugins refuse with a reason is as good as one that trains.
struct CheckResult {
  std::string status;  ///< ok, refused, skipped or failed
  std::string detail;  ///< what was checked, or why not
};
/// Runs one case; whatever it throws becomes its result.
CheckResult run_case(const CheckCase&, at::Device, StackCheck& stacks);
}  // namespace optrush
