#pragma once
#include <string>

#include "check/cases.h"

// Each check throws an Error with the first difference that it finds. A case without values runs to its end
// and nothing is compared.
namespace optrush {
/// Compares the gradients of a stack with differences of its loss, in double: each Differentiable that it
/// calls, input by input, then each trainable parameter along a random direction. A stack without double, or
/// with the effect `precision`, is compared along its own gradient with wide steps. Returns a list of what it
/// compared.
std::string check_gradients(const CheckCase&, at::Device);

/// Runs each Differentiable that the stack calls in each type that training gives it, and compares it with
/// double on the same numbers. Returns a list of what it compared. Throws a Skip where the stack calls none.
std::string check_types(const CheckCase&, at::Device);

/// Trains the stack, saves its state in memory, and continues from it in a second run. Each step has to equal
/// that of the uninterrupted run, bit by bit where the device repeats its bits. Also throws an Error where
/// Optimizer::state() lists a tensor of the wrong size or two of one name.
std::string check_resume(const CheckCase&, at::Device);
}  // namespace optrush
