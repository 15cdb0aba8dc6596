// The gradients that router_losses adds equal the gradients of its losses.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "balance.h"

namespace optrush::router_losses {
namespace {
Tensor logits(int64_t tokens, int64_t experts) {
  at::manual_seed(5);
  return at::randn({tokens, experts}, at::kDouble) * 2;
}

TEST(RouterLosses, GradientsMatchTheLosses) {
  for (const int64_t per_token : {1, 2, 5}) {
    const Tensor x = logits(17, 5).requires_grad_();
    const Losses losses = losses_of(x, per_token);
    (0.3 * losses.balance + 0.05 * losses.z).backward();
    const Tensor own = gradient_of(x.detach(), per_token, {.balance = 0.3, .z = 0.05});
    EXPECT_TRUE(at::allclose(own, x.grad(), 1e-12, 1e-14)) << per_token;
  }
}

TEST(RouterLosses, BalancedRoutersHaveTheSmallestLoss) {
  // Each expert is the first choice of the same number of tokens, with the same probability.
  const Tensor balanced = at::eye(4, at::kDouble).repeat({3, 1}) * 10;
  EXPECT_NEAR(losses_of(balanced, 1).balance.item<double>(), 1, 1e-12);
  EXPECT_NEAR(losses_of(balanced, 1).busiest.item<double>(), 1, 1e-12);
  const Tensor one_alone = at::eye(4, at::kDouble).narrow(0, 0, 1).repeat({12, 1}) * 10;
  EXPECT_NEAR(losses_of(one_alone, 1).balance.item<double>(), 4, 1e-2);
  EXPECT_NEAR(losses_of(one_alone, 1).busiest.item<double>(), 4, 1e-12);
  // Every chosen expert of a token counts, as in transformers.
  EXPECT_NEAR(losses_of(balanced, 4).balance.item<double>(), 4, 1e-12);
}
}  // namespace
}  // namespace optrush::router_losses
