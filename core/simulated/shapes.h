#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace optrush::simulated {
/// Replaces the arguments of an operator by outputs of the right sizes and types, if LibTorch has no shape
/// rule for it in C++. Returns false for other operators.
bool run_shape_rule(const c10::OperatorHandle&, torch::jit::Stack&);
}  // namespace optrush::simulated
