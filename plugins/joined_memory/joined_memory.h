#pragma once
#include <vector>

#include "optrush/param.h"

namespace optrush {
class Run;

/// Moves the values of these matrices so that they lie one behind another in one memory, each at a cache
/// line; whoever holds their leaves or shards sees no difference. In Event::materialized. False, and nothing
/// is moved, where a parameter is encoded or multiplied in another type than its own, where its memory is
/// shared with others, or where a matrix would not start at a cache line.
bool lay_together(const std::vector<Param*>& matrices, Run&);

/// Matrices (R, C) as one tensor (number of them, R, C) without a copy, where they lie in one memory at equal
/// distances; else undefined.
Tensor stack_of(const Tensors& matrices);
}  // namespace optrush
