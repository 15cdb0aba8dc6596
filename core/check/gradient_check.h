#pragma once
#include <string>

#include "check/cases.h"

namespace optrush {
/// Holds the gradients of a stack against differences of its loss, in double: each pair that the stack calls,
/// input by input, then each trainable parameter along a random direction. A stack that has no double, or
/// whose effect is fewer bits, is held along its own gradient by wide steps instead. Returns what was
/// checked; an Error says what is wrong.
std::string check_gradients(const CheckCase&, at::Device);
}  // namespace optrush
