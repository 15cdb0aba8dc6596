#include "orthogonalize.h"

#include <ATen/Functions.h>

namespace optrush::muon {
namespace {
constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
constexpr double kLeastNorm = 1e-7;
}  // namespace

Tensor orthogonalize(const Tensor& matrix, int64_t steps, at::ScalarType multiplied_in) {
  const bool tall = matrix.size(0) > matrix.size(1);  // products of the shorter side are the smaller ones
  Tensor x = tall ? matrix.t() : matrix;
  x = (x / x.norm().clamp_min(kLeastNorm)).to(multiplied_in);  // no singular value is above 1
  for (int64_t i = 0; i < steps; ++i) {
    const Tensor gram = at::mm(x, x.t());
    x = at::addmm(x, at::addmm(gram, gram, gram, kB, kC), x, kA);
  }
  return (tall ? x.t() : x).to(matrix.scalar_type());
}
}  // namespace optrush::muon
