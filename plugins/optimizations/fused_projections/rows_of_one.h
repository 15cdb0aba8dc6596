#pragma once
#include "optrush/tensor.h"

namespace optrush::fused_projections {
/// The matrices (N_i, D) as one matrix (sum of N_i, D) without a copy, if they are adjacent in one memory;
/// otherwise undefined.
Tensor rows_of_one(const Tensors& matrices);
}  // namespace optrush::fused_projections
