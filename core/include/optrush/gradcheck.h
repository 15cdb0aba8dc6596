#pragma once
#include <functional>
#include <string>

#include "optrush/tensor.h"

namespace optrush {
/// How gradients are held against central differences.
struct GradientCheck {
  double step = 1e-5;
  double tolerance = 1e-6;  ///< of the largest difference quotient of an input, or of 1
  int64_t elements = 0;     ///< at most so many of each input, spread over it; 0: every one
};

/// Holds the gradients that autograd gives for `function` against central differences of it, for each input
/// that requires a gradient; the outputs are weighted by random directions. Returns "" where they agree, else
/// which input is wrong and both values. Inputs must be fp64, where differences mean something: an Error
/// otherwise. Leaves the inputs as they were, their `grad` empty.
std::string wrong_gradient(const std::function<Tensors(const Tensors&)>& function, const Tensors& inputs,
                           const GradientCheck& = {});
}  // namespace optrush
