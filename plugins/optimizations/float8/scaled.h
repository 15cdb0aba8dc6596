#pragma once
#include <cstdint>

#include "optrush/tensor.h"

namespace optrush::float8 {
/// The range of one scale.
enum class Scaling : uint8_t { tensorwise, rowwise };

/// A matrix (R, C) in fp8. It represents `values` times `scale`.
struct Scaled {
  Tensor values;  ///< (R, C), rows dense
  Tensor scale;   ///< fp32, (1, 1) or (R, 1)

  /// Some rows, with their scales.
  Scaled rows(int64_t first, int64_t count) const;
};

/// Matrices that are quantized as one: (R_i, C) below each other, or (R, C_i) side by side.
enum class Stacking : uint8_t { vertical, horizontal };

/// Scaled so that the largest absolute value, of all matrices or of each row, is the largest of `type`
/// (arXiv:2209.05433); a scale of rows is a power of two below that, which rounds nothing. Any strides. On a
/// GPU a matrix whose largest value is noted (kernel_parts/largest.h) is read once, otherwise twice.
Scaled quantize(at::TensorList, at::ScalarType type, Scaling, Stacking = Stacking::vertical);
/// The transpose of quantize(matrices). With one scale it has the same numbers, and is made from it.
Scaled quantize_transposed(at::TensorList, const Scaled& quantized, Scaling, Stacking = Stacking::vertical);

/// A matrix in the two layouts that products along its axes read.
struct BothWays {
  Scaled rows;     ///< of the matrix
  Scaled columns;  ///< of its transpose
};
/// With one scale a GPU writes both in one pass.
BothWays quantize_both_ways(at::TensorList beside, at::ScalarType type, Scaling);

/// a bᵀ for a (M, K), b (N, K): (M, N) in `out`; K and N are multiples of 16. `fast_sums` lets a GPU
/// accumulate in fewer than 32 bits (arXiv:2412.19437, section 3.3.2).
Tensor multiply(const Scaled& a, const Scaled& b, at::ScalarType out, bool fast_sums);
}  // namespace optrush::float8
