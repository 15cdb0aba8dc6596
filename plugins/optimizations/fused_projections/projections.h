#pragma once
#include <vector>

#include "optrush/differentiable.h"

namespace optrush::fused_projections {
/// The gradients that a backward computes.
struct Wanted {
  bool x = true;
  std::vector<bool> matrices;  ///< one for each
};

/// Whether one product of all matrices moves less memory than one product for each matrix. One product copies
/// the gradients of the outputs into one tensor: 2 numbers for each of its `rows` columns. Separate products
/// add their results: each after the first reads and writes the gradient of x, 2 numbers for each of its
/// `columns`.
bool joining_pays(int64_t rows, int64_t columns, int64_t matrices);

/// x W_iᵀ for several matrices: inputs x (.., D) and W_i (N_i, D), outputs (.., N_i), which are bit-equal to
/// separate linears. If the gradients of the outputs are in one memory (joined_gradients.h), or if joining
/// them pays (joining_pays), the backward is one product for the matrices and, if the matrices are rows of
/// one matrix, one product for x. Otherwise each product adds to the gradient of x, and the gradients of the
/// matrices are bit-equal to separate linears.
Differentiable make_projections(Wanted);
}  // namespace optrush::fused_projections
