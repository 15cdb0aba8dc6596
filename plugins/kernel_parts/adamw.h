#pragma once
#include <cmath>
#include <cstdint>

/// Common code of the AdamW kernels (arXiv:1711.05101). It does not include torch, so that files of vector
/// code can use it.
namespace optrush::fused {
/// The factors of the update of one shard at one step.
struct AdamWFactors {
  float beta1, beta2, eps;
  float keep;       ///< 1 - lr * weight decay
  float step_size;  ///< lr / (1 - beta1^t)
  float root;       ///< 1 / sqrt(1 - beta2^t)
};

struct AdamWRates {
  double beta1, beta2, eps, weight_decay;

  AdamWFactors at(double step, double lr, bool decays) const {
    return {.beta1 = static_cast<float>(beta1),
            .beta2 = static_cast<float>(beta2),
            .eps = static_cast<float>(eps),
            .keep = static_cast<float>(1 - lr * (decays ? weight_decay : 0)),
            .step_size = static_cast<float>(lr / (1 - std::pow(beta1, step))),
            .root = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, step)))};
  }
};
}  // namespace optrush::fused
