#pragma once
#include <vector>

#include "optrush/param.h"

namespace optrush {
class Run;

/// Moves the values of these matrices into one contiguous memory, each at a cache line. Holders of their
/// leaves or shards see no difference. Call it in Event::materialized. Returns false, and moves nothing, if a
/// parameter is encoded or is multiplied in another type, if its memory is shared, or if a matrix would not
/// start at a cache line.
bool lay_together(const std::vector<Param*>& matrices, Run&);

/// Matrices (R, C) as one tensor (number of matrices, R, C) without a copy, if they lie in one memory at
/// equal distances; otherwise undefined.
Tensor stack_of(const Tensors& matrices);
}  // namespace optrush
