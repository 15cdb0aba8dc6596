#pragma once
#include <cstdint>

/// What the kernels of the update are given: plain pointers, so that the file of vector code sees no torch.
namespace optrush::adamw_8bit {
enum class GradientType : uint8_t { bf16, fp32 };

/// `count` numbers of one shard. Moments are codes (code.h), with a scale for each block of them.
struct Piece {
  const void* gradient;
  float* data;
  uint8_t *first, *second;
  float *first_scales, *second_scales;
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
/// Blocks [begin, end) of the piece.
void update(const Piece&, GradientType, const Factors&, int64_t begin, int64_t end);
}  // namespace cpu
}  // namespace optrush::adamw_8bit
