#pragma once
#include "optrush/run.h"

namespace optrush::fused_projections {
/// The matrices (N_i, D) as one (sum of N_i, D) without a copy, where they lie one behind another in one
/// memory; else undefined.
Tensor rows_of_one(const Tensors& matrices);

/// Moves the values of these parameters so that they are rows of one matrix; whoever holds their leaves or
/// shards sees no difference. In Event::materialized. False, and nothing is moved, where a parameter is
/// encoded or multiplied in another type than its own, where its memory is shared already, or where a matrix
/// would not start at a cache line.
bool lay_as_rows_of_one(const std::vector<Param*>& params, Run&);
}  // namespace optrush::fused_projections
