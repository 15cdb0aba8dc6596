#pragma once
#include "optrush/tensor.h"

namespace optrush::muon {
/// What the iteration computes in. A matrix in double is always iterated in double.
enum class Arithmetic { bf16, fp32 };

/// Nearly U Vᵀ of a matrix U S Vᵀ: `steps` of a quintic Newton–Schulz iteration, whose coefficients push
/// small singular values up fast and leave all of them between 0.7 and 1.2 rather than at 1
/// (https://kellerjordan.github.io/posts/muon/). In the matrix's own type and shape; zeros of zeros.
Tensor orthogonalize(const Tensor& matrix, int64_t steps, Arithmetic);
}  // namespace optrush::muon
