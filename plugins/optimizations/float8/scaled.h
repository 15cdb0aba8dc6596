#pragma once
#include <cstdint>

#include "optrush/tensor.h"

namespace optrush::float8 {
/// How much one scale covers.
enum class Scaling : uint8_t { tensorwise, rowwise };

/// A matrix (R, C) in fp8: `values` times `scale` is what it stands for.
struct Scaled {
  Tensor values;  ///< (R, C), rows dense
  Tensor scale;   ///< fp32, (1, 1) or (R, 1)
};

/// Scaled so that the largest absolute value, of the matrix or of each row, is the largest of `type`
/// (arXiv:2209.05433); a scale of rows is a power of two below that, which rounds nothing. Any strides.
Scaled quantize(const Tensor& matrix, at::ScalarType type, Scaling);
/// quantize(matrixᵀ) from quantize(matrix): with one scale it is the same numbers.
Scaled quantize_transposed(const Tensor& matrix, const Scaled& quantized, Scaling);

/// A matrix as products along either of its axes read it.
struct BothWays {
  Scaled rows;     ///< of the matrix
  Scaled columns;  ///< of its transpose
};
/// With one scale a GPU reads the matrix twice for all of it, for its largest value and to round it.
BothWays quantize_both_ways(const Tensor& matrix, at::ScalarType type, Scaling);

/// a bᵀ for a (M, K), b (N, K): (M, N) in `out`; K and N are multiples of 16. `fast_sums` lets a GPU add up
/// in fewer than 32 bits, which a forward stands and a gradient does not.
Tensor multiply(const Scaled& a, const Scaled& b, at::ScalarType out, bool fast_sums);
}  // namespace optrush::float8
