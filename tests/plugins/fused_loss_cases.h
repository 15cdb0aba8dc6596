#pragma once
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "loss_function.h"
#include "model/operators.h"

/// The fused loss and its plain form, on a CPU and on a GPU.
namespace optrush::testing {
/// The largest difference, relative to the largest value.
inline double apart(const Tensor& is, const Tensor& expected) {
  const Tensor a = is.detach().cpu().to(at::kDouble), b = expected.detach().to(at::kDouble);
  return (a - b).abs().max().item<double>() / b.abs().max().item<double>();
}

struct LossCase {
  at::ScalarType type;
  double tolerance;
  int64_t vocabulary, chunk;
  double soft_cap = 0;
};

/// Compares the pair on `device` with the plain form in fp64 on the same numbers: the loss and both
/// gradients, with an initial gradient that is known, unknown, or not the one that was expected.
inline void expect_plain_loss(const LossCase& given, at::Device device = at::kCPU) {
  const auto& [type, tolerance, vocabulary, chunk, soft_cap] = given;
  SCOPED_TRACE(std::string(c10::toString(type)) + ", vocabulary " + std::to_string(vocabulary) + ", chunk " +
               std::to_string(chunk) + ", soft cap " + std::to_string(soft_cap));
  const Tensor x = at::randn({3, 9, 8}, at::kDouble).to(type).transpose(0, 1);
  const Tensor weight = (at::randn({vocabulary, 8}, at::kDouble) / 2).to(type);
  ASSERT_FALSE(x.is_contiguous());
  Tensor labels = at::randint(vocabulary, {9, 3}, at::kLong);
  labels[0].fill_(-100), labels[5][1] = -100, labels[8][2] = vocabulary - 1;
  const Tensor wide_x = x.to(at::kDouble).requires_grad_();
  const Tensor wide_weight = weight.to(at::kDouble).requires_grad_();
  const Tensor logits = plain::soft_capped(at::linear(wide_x, wide_weight), soft_cap);
  const Tensor expected = plain::cross_entropy_sum(logits, labels);
  expected.backward();

  const Differentiable op = make_loss_function({.chunk = chunk, .soft_cap = soft_cap});
  struct Gradient {
    std::optional<double> known;  // before the forward
    double is;
  };
  for (const Gradient& gradient : {Gradient{{}, 1}, Gradient{0.3, 0.3}, Gradient{0.3, 0.7}}) {
    const Tensor there = x.detach().to(device).requires_grad_();
    const Tensor weight_there = weight.detach().to(device).requires_grad_();
    Tensors in = {there, labels.to(device), weight_there};
    if (gradient.known)
      in.push_back(at::full({}, *gradient.known, at::TensorOptions(at::kDouble).device(device)));
    const Tensor loss = call(op, in).at(0);
    loss.backward(at::full_like(loss, gradient.is));
    EXPECT_EQ(loss.scalar_type(), type == at::kDouble ? at::kDouble : at::kFloat);
    EXPECT_NEAR(loss.item<double>(), expected.item<double>(), tolerance * expected.item<double>());
    EXPECT_LE(apart(there.grad(), wide_x.grad() * gradient.is), 2 * tolerance);
    EXPECT_LE(apart(weight_there.grad(), wide_weight.grad() * gradient.is), 2 * tolerance);
  }
}

inline constexpr std::pair<at::ScalarType, double> kLossTypes[] = {
    {at::kDouble, 1e-12}, {at::kFloat, 4e-6}, {at::kBFloat16, 1.0 / 64}, {at::kHalf, 1.0 / 512}};
}  // namespace optrush::testing
