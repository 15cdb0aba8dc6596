#pragma once
#include <cstdint>

#include "optrush/differentiable.h"

namespace optrush::grouped_experts {
/// How the products of the groups are computed.
enum class Products : uint8_t {
  one_by_one,  ///< one call for each group; the host reads the ends of the groups
  grouped      ///< at::_grouped_mm, one kernel for all groups; the ends stay on the device
};

struct GroupedProduct {
  Products products = Products::one_by_one;
  bool trains = true;  ///< the matrices get gradients
  /// The kernel leaves the gradients of matrices without rows unwritten (pytorch/pytorch#172439).
  bool clear_idle = false;
};

/// Multiplies each row of x (N, K) by the matrix of its group. Rows are sorted by group. Inputs: x, `ends`
/// (E) in int32 with the end of each group's rows, and E matrices (F, K); output (N, F). For products one by
/// one, `ends` is on the host. A forecast assumes groups of equal size. Matrices at equal distances in one
/// memory are read where they are; others are copied for the kernel.
Differentiable make_grouped_product(const GroupedProduct&);
}  // namespace optrush::grouped_experts
