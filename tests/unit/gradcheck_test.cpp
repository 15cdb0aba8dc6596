#include "optrush/differentiable.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/error_of.h"

namespace optrush {
namespace {
using ::testing::HasSubstr;
using ::testing::StartsWith;

Tensor input(at::ScalarType type) { return at::arange(1, 7, type).view({2, 3}).requires_grad_(); }

TEST(Gradcheck, DistinguishesRightFromWrongGradients) {
  const auto square = [](const Tensors& in) { return Tensors{in[0] * in[0]}; };
  EXPECT_EQ(wrong_gradient(square, {input(at::kDouble)}), "");
  const auto half = [](const Tensors& in) { return Tensors{in[0] * in[0].detach()}; };
  EXPECT_THAT(wrong_gradient(half, {input(at::kDouble)}), StartsWith("input 0: the backward gives "));
}

TEST(Gradcheck, RefusesTypesBelowFp64) {
  const auto same = [](const Tensors& in) { return Tensors{in[0] * 1}; };
  for (const auto type : {at::kHalf, at::kFloat, at::kBFloat16})
    EXPECT_THAT(testing::error_of([&] { wrong_gradient(same, {input(type)}); }), HasSubstr("below fp64"))
        << type;
}

TEST(Gradcheck, LeavesInputsUnchanged) {
  const Tensor x = input(at::kDouble), before = x.detach().clone();
  wrong_gradient([](const Tensors& in) { return Tensors{in[0].exp()}; }, {x});
  EXPECT_TRUE(at::equal(x.detach(), before));
  EXPECT_FALSE(x.grad().defined());
}
}  // namespace
}  // namespace optrush
