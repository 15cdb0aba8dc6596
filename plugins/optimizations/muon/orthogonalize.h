#pragma once
#include "optrush/tensor.h"

namespace optrush::muon {
/// Nearly U Vᵀ of a matrix U S Vᵀ: `steps` of a quintic Newton–Schulz iteration, whose coefficients push
/// small singular values up fast and leave all of them between 0.7 and 1.2 rather than at 1
/// (https://kellerjordan.github.io/posts/muon/). Its products are of type `multiplied_in`; the result has the
/// matrix's own type and shape, and is zeros of zeros.
Tensor orthogonalize(const Tensor& matrix, int64_t steps, at::ScalarType multiplied_in);
}  // namespace optrush::muon
