#pragma once
#include <vector>

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

/// A matrix of a pair.
struct Matrix {
  StepWeight* weight = nullptr;  ///< lives as long as the pair
  bool trained = true;
};

/// x W_iᵀ for linears of one input, with every product in fp8: inputs x (.., K) and W_i (N_i, K) in bf16 or
/// fp32; the outputs (.., N_i) are in bf16. x is quantized once for all. x and W_i are e4m3; the outputs'
/// gradients are `gradient_type`, each with a scale of its own, and the parts of the gradient of x are added
/// from the last to the first, as autograd adds those of separate linears. What the gradients of W_i multiply
/// with is kept in fp8, one byte a number; nothing of x is where no W_i is trained. K, N_i and, where a W_i
/// is trained, the number of rows are multiples of 16.
Differentiable make_linear_function(Scaling, at::ScalarType gradient_type, std::vector<Matrix>);
}  // namespace optrush::float8
