#pragma once
#include <cstdint>

/// What the kernels of the update are given: plain pointers, so that the file of vector code sees no torch.
namespace optrush::master_adamw {
enum class GradientType : uint8_t { bf16, fp32 };

/// `count` numbers of one shard. fp32, but for the gradient and for `weight`: the master in bf16, or null
/// where operators read the master itself.
struct Piece {
  const void* gradient;
  float *master, *first, *second;
  void* weight;
  int64_t count;
};

/// AdamW (arXiv:1711.05101) as it is at one step.
struct Factors {
  float beta1, beta2, eps;
  float keep;       ///< 1 - lr * weight decay
  float step_size;  ///< lr / (1 - beta1^t)
  float root;       ///< 1 / sqrt(1 - beta2^t)
};

namespace cpu {
/// Numbers [begin, end) of the piece.
void update(const Piece&, GradientType, const Factors&, int64_t begin, int64_t end);
}  // namespace cpu
}  // namespace optrush::master_adamw
