#pragma once
#include <string>

#include "check/cases.h"

namespace optrush {
/// Trains the stack, saves its state in memory, and goes on from it in a run of its own: every step has to be
/// that of the run that was not interrupted, to the bit where the device repeats its bits. An Error says what
/// differs; so does one of Optimizer::state() that lists a tensor of the wrong size or two of one name.
std::string check_resume(const CheckCase&, at::Device);
}  // namespace optrush
