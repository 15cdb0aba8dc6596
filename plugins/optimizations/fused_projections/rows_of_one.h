#pragma once
#include "optrush/tensor.h"

namespace optrush::fused_projections {
/// The matrices (N_i, D) as one (sum of N_i, D) without a copy, where they lie one behind another in one
/// memory; else undefined.
Tensor rows_of_one(const Tensors& matrices);
}  // namespace optrush::fused_projections
