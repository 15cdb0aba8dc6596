#pragma once
#include <string>

#include "plugin_check/case_end.h"
#include "plugin_check/stack_check.h"

namespace optrush {
/// Runs a case; exceptions become its result. The caller sets the seconds.
CaseEnd run_case(const CheckCase&, const CheckContext&, StackCheck& stacks);

// Checks of a case. Each throws an Error with the first difference that it finds. A case without values runs
// to its end, and nothing is compared.
/// Compares the gradients of a stack with differences of its loss in fp64: each Differentiable that it calls,
/// input by input, then each trainable parameter along a random direction. A stack without fp64, or with the
/// effect `precision`, is compared along its own gradient with larger steps. Returns a list of the
/// compared gradients.
std::string check_gradients(const CheckCase&, const CheckContext&);

/// Runs each Differentiable of the stack in each type that training uses, and compares it with fp64 on the
/// same numbers. Returns a list of the comparisons. Throws a Skip if the stack calls none.
std::string check_types(const CheckCase&, const CheckContext&);

/// Trains the stack, saves its state in memory, and continues from it in a second run. Each step must equal
/// the step of the uninterrupted run, bit by bit if the device is deterministic. Also throws an Error if
/// Optimizer::state() has a tensor of the wrong size or two with one name.
std::string check_resume(const CheckCase&, const CheckContext&);
}  // namespace optrush
