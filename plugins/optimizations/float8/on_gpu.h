#pragma once
#include "scaled.h"

/// Matrices in fp8 by the kernels of a GPU. In a forecast they have no values.
namespace optrush::float8::on_gpu {
/// With one scale. `both_ways`: also the transpose, in the same pass.
BothWays quantize(at::TensorList, at::ScalarType type, Stacking, bool both_ways, const Delayed&);
/// The transpose of 8-bit values.
Tensor transposed(const Tensor& values);

/// In e4m3, with a scale for each group, in one pass. `both_ways`: also the transpose, with its own scales.
BothWays quantize_groups(at::TensorList, Stacking, bool both_ways);
/// In e4m3, with a scale for each block of kGroup rows and columns, below each other, in one pass.
Scaled quantize_blocks(at::TensorList);
}  // namespace optrush::float8::on_gpu
