#pragma once
#include <string>

#include "check/cases.h"

namespace optrush {
/// Runs every pair that the stack calls in each type that training gives it, against the same pair in double
/// on the same numbers. Returns what was checked; an Error says what is wrong, a Skip that there is no pair.
std::string check_types(const CheckCase&, at::Device);
}  // namespace optrush
