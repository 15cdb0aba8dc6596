#pragma once
#include <gtest/gtest.h>

#include "optrush/differentiable.h"

namespace optrush::testing {
/// Checks the gradient of every element of every input that requires one, in fp64.
inline void gradcheck(const std::function<Tensors(const Tensors&)>& function, const Tensors& inputs,
                      double tolerance = 1e-6, double step = 1e-5) {
  EXPECT_EQ(wrong_gradient(function, inputs, {.step = step, .tolerance = tolerance}), "");
}
}  // namespace optrush::testing
