#pragma once
#include "optrush/tensor.h"

namespace optrush::muon {
/// Nearly U Vᵀ of a matrix U S Vᵀ: `steps` of a quintic Newton–Schulz iteration, whose coefficients raise
/// small singular values quickly and leave all of them between 0.7 and 1.2, not at 1
/// (https://kellerjordan.github.io/posts/muon/). Its products are of type `multiplied_in`; the result has the
/// matrix's type and shape. It is zero for a zero matrix.
Tensor orthogonalize(const Tensor& matrix, int64_t steps, at::ScalarType multiplied_in);
}  // namespace optrush::muon
