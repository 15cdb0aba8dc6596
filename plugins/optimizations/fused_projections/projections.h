#pragma once
#include <vector>

#include "optrush/differentiable.h"

namespace optrush::fused_projections {
/// Which gradients a backward makes.
struct Wanted {
  bool x = true;
  std::vector<bool> matrices;  ///< one for each
};

/// Whether one product of all matrices moves less memory than one product for each, whose results are added:
/// the gradients of the outputs are copied into one tensor, 2 numbers for each of its `rows` columns, and
/// each product after the first would read and write the gradient of x, 2 numbers for each of its `columns`.
bool joining_pays(int64_t rows, int64_t columns, int64_t matrices);

/// x W_iᵀ for several matrices: inputs x (.., D) and W_i (N_i, D), outputs (.., N_i), which are those of
/// separate linears to the bit. The backward is one product for x and one for the matrices where they join
/// (joining_pays, and for x where the matrices are rows of one). Elsewhere the products that make the
/// gradient of x add to it, and those of the matrices have the bits of separate linears.
Differentiable make_projections(Wanted);
}  // namespace optrush::fused_projections
