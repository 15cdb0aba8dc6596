#pragma once
#include <cstdint>

#include "optrush/differentiable.h"

namespace optrush::grouped_experts {
/// How the products of the groups are computed.
enum class Products : uint8_t {
  one_by_one,  ///< one call for each group; the host reads where the groups end
  grouped      ///< at::_grouped_mm, one kernel for all groups; the ends stay on the device
};

struct GroupedProduct {
  Products products = Products::one_by_one;
  bool trains = true;  ///< the matrices get gradients
  /// The kernel leaves the gradients of matrices without rows unwritten (pytorch/pytorch#172439).
  bool clear_idle = false;
};

/// x (N, K) with the rows of the first group first, each multiplied by the matrix of its group: inputs x,
/// `ends` (E) int32 with the row behind each group, and E matrices (F, K); output (N, F). `ends` is on the
/// host for products one by one. A forecast takes all groups for equally large. Matrices at equal distances
/// in one memory are read where they are; others are copied for the kernel.
Differentiable make_grouped_product(const GroupedProduct&);
}  // namespace optrush::grouped_experts
