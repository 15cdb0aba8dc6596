#pragma once
#include <string>

#include "check/cases.h"

namespace optrush {
/// Holds the gradients of a stack against differences of its loss, in double: each pair that the stack calls,
/// input by input, then each trainable parameter along a random direction. A stack that has no double, or
/// whose effect is fewer bits, is held along its own gradient by wide steps instead. Returns what was
/// checked; an Error says what is wrong.
std::string check_gradients(const CheckCase&, at::Device);

/// Runs every pair that the stack calls in each type that training gives it, against the same pair in double
/// on the same numbers. Returns what was checked; an Error says what is wrong, a Skip that there is no pair.
std::string check_types(const CheckCase&, at::Device);

/// Trains the stack, saves its state in memory, and goes on from it in a run of its own: every step has to be
/// that of the run that was not interrupted, to the bit where the device repeats its bits. An Error says what
/// differs; so does one of Optimizer::state() that lists a tensor of the wrong size or two of one name.
std::string check_resume(const CheckCase&, at::Device);
}  // namespace optrush
