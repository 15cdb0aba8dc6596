#pragma once
#include <cstdint>

#include "kernel_parts/rounding.h"
#include "optrush/tensor.h"

namespace optrush::float8 {
/// The range of one scale: a matrix, a row, kGroup numbers of a row, or a block of kGroup rows and columns.
enum class Scaling : uint8_t { tensorwise, rowwise, groupwise, blockwise };

/// Of arXiv:2412.19437, section 3.3. Scales of groups and of blocks need sizes that are multiples of it.
constexpr int64_t kGroup = 128;
/// Whether a scale is of kGroup numbers or of a block of them.
bool in_groups(Scaling);

/// A matrix (R, C) in fp8. It represents `values` times `scale`.
struct Scaled {
  Tensor values;  ///< (R, C), rows dense
  /// fp32: (1, 1) or (R, 1); groupwise (R, C / kGroup), in memory column by column; blockwise
  /// (R / kGroup, C / kGroup), with further columns up to a multiple of 4, which have any values.
  Tensor scale;
  Scaling scaling = Scaling::tensorwise;

  /// The scales of a blockwise matrix, (R / kGroup, C / kGroup).
  Tensor scale_of_blocks() const;
  /// Some rows, with their scales.
  Scaled rows(int64_t first, int64_t count) const;
};

using fused::Delayed;

/// Matrices that are quantized as one: (R_i, C) below each other, or (R, C_i) side by side.
enum class Stacking : uint8_t { vertical, horizontal };

/// The scales of a row of blocks in memory: cuBLASLt reads a multiple of 4.
int64_t padded_blocks(int64_t blocks);

/// Scaled so that the largest absolute value in the range of a scale is the largest of `type`
/// (arXiv:2209.05433). Scales are powers of two below that, which round nothing, except with one scale. Any
/// strides. On a GPU a matrix with one scale whose largest value is noted (kernel_parts/largest.h) is read
/// once, otherwise twice. Groups and blocks are in e4m3, and blocks are below each other.
///
/// With `delayed`, for one scale, a GPU reads the matrix once, or not at all if the kernel that computed it
/// has written it in 8 bits (kernel_parts/rounding.h). Numbers beyond the range become the largest of `type`;
/// an infinity becomes a NaN.
Scaled quantize(at::TensorList, at::ScalarType type, Scaling, Stacking = Stacking::vertical,
                const Delayed& delayed = {});
/// The transpose of quantize(matrices). With one scale, and with blocks, it has the same numbers, and is made
/// from it.
Scaled quantize_transposed(at::TensorList, const Scaled& quantized, Scaling, Stacking = Stacking::vertical);

/// A matrix in the two layouts that products along its axes read.
struct BothWays {
  Scaled rows;     ///< of the matrix
  Scaled columns;  ///< of its transpose
};
/// With one scale, and with groups, a GPU writes both in one pass.
BothWays quantize_both_ways(at::TensorList beside, at::ScalarType type, Scaling, const Delayed& delayed = {});

/// a bᵀ for a (M, K), b (N, K): (M, N) in `out`; K and N are multiples of 16. If a is groupwise, b is
/// groupwise or blockwise, and the sums of groups are always added in fp32. `fast_sums` lets a GPU accumulate
/// in fewer than 32 bits (arXiv:2412.19437, section 3.3.2).
Tensor multiply(const Scaled& a, const Scaled& b, at::ScalarType out, bool fast_sums);
}  // namespace optrush::float8
