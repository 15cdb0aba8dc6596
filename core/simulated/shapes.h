#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace optrush::simulated {
/// Puts outputs of the right sizes and types in the place of an operator's arguments, for those whose shapes
/// LibTorch does not know in C++. False: it is none of these.
bool run_shape_rule(const c10::OperatorHandle&, torch::jit::Stack&);
}  // namespace optrush::simulated
