#include "balance.h"

#include <ATen/Functions.h>

namespace optrush::router_losses {
namespace {
/// Tokens of each expert divided by all tokens (E). They add up to the number of experts per token.
Tensor shares_of(const Tensor& probabilities, int64_t per_token) {
  const Tensor chosen = std::get<1>(at::topk(probabilities, per_token, -1));
  return at::zeros_like(probabilities).scatter(1, chosen, 1.0).mean(0);
}
}  // namespace

Losses losses_of(const Tensor& logits, int64_t per_token) {
  const Tensor probabilities = at::softmax(logits, -1);
  const Tensor shares = shares_of(probabilities, per_token);
  const auto experts = static_cast<double>(logits.size(1));
  return {.balance = experts * (shares * probabilities.mean(0)).sum(),
          .z = at::logsumexp(logits, -1).square().mean(),
          .busiest = shares.max() * (experts / static_cast<double>(per_token))};
}

Tensor gradient_of(const Tensor& logits, int64_t per_token, const Coefficients& coefficients) {
  const Tensor probabilities = at::softmax(logits, -1);
  const auto tokens = static_cast<double>(logits.size(0)), experts = static_cast<double>(logits.size(1));
  // f is a count and has no derivative.
  const Tensor shares = shares_of(probabilities, per_token);
  const Tensor mean = (probabilities * shares).sum(-1, /*keepdim=*/true);
  const Tensor balance = probabilities * (shares - mean) * (experts / tokens);
  const Tensor z = probabilities * at::logsumexp(logits, -1, /*keepdim=*/true) * (2 / tokens);
  return balance * coefficients.balance + z * coefficients.z;
}
}  // namespace optrush::router_losses
