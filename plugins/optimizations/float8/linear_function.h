#pragma once
#include "optrush/differentiable.h"
#include "scaled.h"

namespace optrush::float8 {
/// One matrix in fp8 as both products of a step read it; quantized when it is first asked for, again where
/// the matrix has changed, and dropped after each step. A trace quantizes inside.
class StepWeight {
 public:
  /// Of the matrix (N, K): for the forward.
  Scaled rows(const Tensor& weight, Scaling);
  /// Of its transpose (K, N): for the gradient of x.
  Scaled columns(const Tensor& weight, Scaling);
  void drop() { *this = {}; }

 private:
  Tensor of_;
  int64_t version_ = 0;
  Scaled rows_, columns_;
};

/// x Wᵀ with every product in fp8: inputs x (.., K), W (N, K) in bf16 or fp32; the output (.., N) is in bf16.
/// x and W are e4m3; the output's gradient is `gradient_type`. What the gradient of W multiplies with is kept
/// in fp8, one byte a number; without `weight_trained` nothing of x is kept. K, N and, where W is trained,
/// the number of rows are multiples of 16. `weight` must live as long as the pair.
Differentiable make_linear_function(Scaling, at::ScalarType gradient_type, bool weight_trained,
                                    StepWeight& weight);
}  // namespace optrush::float8
