#pragma once
#include "optrush/tensor.h"

namespace optrush::router_losses {
struct Coefficients {
  double balance = 0, z = 0;
};

/// What the router of one layer did with T tokens.
struct Losses {
  Tensor balance;  ///< E sum f_i P_i: E experts, f_i tokens of expert i per token, P_i its mean probability
  Tensor z;        ///< mean of squared log-sum-exps
  Tensor busiest;  ///< tokens of the busiest expert over their mean
};
/// Of logits (T, E), in fp32 or fp64.
Losses losses_of(const Tensor& logits, int64_t per_token);
/// The gradient of coefficients.balance x balance + coefficients.z x z with respect to the logits.
Tensor gradient_of(const Tensor& logits, int64_t per_token, const Coefficients&);
}  // namespace optrush::router_losses
