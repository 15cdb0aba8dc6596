#include "scaled.h"

#include <ATen/Functions.h>

#include <array>
#include <limits>

#include "optrush/forecast.h"

namespace optrush::float8 {
namespace {
/// Below this a matrix counts as zero, and its scale stays finite.
constexpr double kSmallest = 1e-12;

double largest_of(at::ScalarType type) { return type == at::kFloat8_e5m2 ? 57344 : 448; }

Tensor largest_in(const Tensor& matrix, Scaling scaling) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::array<int64_t, 2> all = {0, 1}, columns = {1, 1};
  const at::IntArrayRef dims =
      scaling == Scaling::tensorwise ? at::IntArrayRef(all) : at::IntArrayRef(columns).slice(0, 1);
  return at::linalg_vector_norm(matrix, infinity, dims, /*keepdim=*/true, at::kFloat);
}
}  // namespace

Scaled quantize(const Tensor& matrix, at::ScalarType type, Scaling scaling) {
  Tensor factor = largest_in(matrix, scaling).clamp_min(kSmallest).reciprocal() * largest_of(type);
  if (scaling == Scaling::rowwise) factor = factor.log2().floor().exp2();
  // The factor has two dimensions: the product is in fp32 and rounded once.
  return {(matrix * factor).to(type).contiguous(), factor.reciprocal()};
}

Scaled quantize_transposed(const Tensor& matrix, const Scaled& quantized, Scaling scaling) {
  if (scaling == Scaling::tensorwise) return {quantized.values.t().contiguous(), quantized.scale};
  return quantize(matrix.t(), quantized.values.scalar_type(), scaling);
}

Tensor multiply(const Scaled& a, const Scaled& b, at::ScalarType out, bool fast_sums) {
  const bool one_each = a.scale.numel() == 1 && b.scale.numel() == 1;
  if (one_each || form_of(a.values) == at::kCUDA)
    return at::_scaled_mm(a.values, b.values.t(), a.scale, b.scale.t(), /*bias=*/{}, /*scale_result=*/{}, out,
                          fast_sums);
  // CPUs have the product with one scale alone. Those of rows may as well be applied to the sums, in fp32.
  const Tensor one = at::ones({1, 1}, a.scale.options());
  const Tensor sums = at::_scaled_mm(a.values, b.values.t(), one, one, {}, {}, at::kFloat, fast_sums);
  return (sums * a.scale * b.scale.t()).to(out);
}
}  // namespace optrush::float8
