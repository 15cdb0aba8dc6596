#pragma once
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "optrush/tensor.h"

namespace optrush::testing {
/// Compares the gradients that autograd gives for `function` with central differences of it, in fp64: every
/// element of every input that requires a gradient, each output weighted by a random direction.
inline void gradcheck(const std::function<Tensors(const Tensors&)>& function, const Tensors& inputs,
                      double tolerance = 1e-6, double step = 1e-5) {
  const Tensors outputs = function(inputs);
  Tensors directions;
  for (const Tensor& out : outputs) directions.push_back(at::randn(out.sizes(), out.options()));
  const auto weighted = [&](const Tensors& outs) {
    Tensor sum = at::zeros({}, at::kDouble);
    for (size_t i = 0; i < outs.size(); ++i) sum = sum + (outs[i] * directions[i]).sum();
    return sum;
  };
  for (const Tensor& input : inputs)
    if (input.defined()) input.mutable_grad().reset();
  weighted(outputs).backward();
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || !inputs[i].requires_grad()) continue;
    ASSERT_EQ(inputs[i].scalar_type(), at::kDouble) << "differences mean nothing below fp64";
    ASSERT_TRUE(inputs[i].grad().defined()) << "input " << i << " got no gradient";
    const Tensor numeric = at::zeros(inputs[i].sizes(), inputs[i].options());
    for (int64_t at = 0; at < inputs[i].numel(); ++at) {
      // The place of element `at` in the input's own memory, whatever its strides.
      Tensor place = inputs[i], slot = numeric;
      for (int64_t rest = at; place.dim() > 0;) {
        const int64_t index = rest / (place[0].numel()), width = place[0].numel();
        place = place[index], slot = slot[index], rest -= index * width;
      }
      const double kept = place.item<double>();
      place.fill_(kept + step);
      const double above = weighted(function(inputs)).item<double>();
      place.fill_(kept - step);
      const double below = weighted(function(inputs)).item<double>();
      place.fill_(kept);
      slot.fill_((above - below) / (2 * step));
    }
    const double error = (numeric - inputs[i].grad()).abs().max().item<double>();
    EXPECT_LE(error, tolerance * std::max(1.0, numeric.abs().max().item<double>())) << "input " << i;
  }
}
}  // namespace optrush::testing
