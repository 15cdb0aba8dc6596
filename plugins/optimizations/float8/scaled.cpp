#include "scaled.h"

#include <ATen/Functions.h>
#include <c10/core/DeviceGuard.h>

#include <array>
#include <limits>

#include "gpu/quantize.h"
#include "kernel_parts/tensors.h"
#include "optrush/edit.h"
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

/// The power of two at or below each number: its sign and its exponent.
Tensor power_of_two_below(const Tensor& positive) {
  constexpr int64_t kExponent = 0x7F800000;
  return positive.view(at::kInt).bitwise_and(kExponent).view(at::kFloat);
}

Scaled quantize_by_operators(const Tensor& matrix, at::ScalarType type, Scaling scaling) {
  Tensor factor = largest_in(matrix, scaling).clamp_min(kSmallest).reciprocal() * largest_of(type);
  if (scaling == Scaling::rowwise) factor = power_of_two_below(factor);
  // The factor has two dimensions: the product is in fp32 and rounded once.
  return {(matrix * factor).to(type).contiguous(), factor.reciprocal()};
}

bool has_kernel(const Tensor& matrix, Scaling scaling) {
  return scaling == Scaling::tensorwise && !tracing() && form_of(matrix) == at::kCUDA;
}

BothWays quantize_by_kernel(const Tensor& given, at::ScalarType type, bool both_ways) {
  const Tensor matrix = given.contiguous();
  const int64_t rows = matrix.size(0), columns = matrix.size(1);
  const auto options = matrix.options().requires_grad(false);
  BothWays made;
  made.rows = {at::empty({rows, columns}, options.dtype(type)), at::empty({1, 1}, options.dtype(at::kFloat))};
  if (both_ways) made.columns = {at::empty({columns, rows}, options.dtype(type)), made.rows.scale};
  const gpu::Quantize p{.type = fused::type_of(matrix, "float8"),
                        .mantissa = type == at::kFloat8_e5m2 ? 2 : 3,
                        .x = matrix.const_data_ptr(),
                        .rows = rows,
                        .columns = columns,
                        .values = made.rows.values.data_ptr(),
                        .transposed = both_ways ? made.columns.values.data_ptr() : nullptr,
                        .scale = static_cast<float*>(made.rows.scale.data_ptr())};
  const Tensor parts = at::empty({gpu::parts_of(p)}, options.dtype(at::kFloat));
  const NotedKernel kernel("float8_quantize",
                           2 * bytes_of({matrix}) + bytes_of({made.rows.values, made.columns.values}),
                           /*launches=*/2);
  if (is_forecast(matrix)) return made;
  const c10::DeviceGuard guard(matrix.device());
  gpu::quantize(p, parts.mutable_data_ptr<float>());
  return made;
}

Tensor transposed_by_kernel(const Tensor& values) {
  Tensor transposed = at::empty({values.size(1), values.size(0)}, values.options());
  const NotedKernel kernel("float8_transpose", bytes_of({values, transposed}));
  if (is_forecast(values)) return transposed;
  const c10::DeviceGuard guard(values.device());
  gpu::transpose(values.const_data_ptr(), transposed.data_ptr(), values.size(0), values.size(1));
  return transposed;
}
}  // namespace

Scaled quantize(const Tensor& matrix, at::ScalarType type, Scaling scaling) {
  return has_kernel(matrix, scaling) ? quantize_by_kernel(matrix, type, /*both_ways=*/false).rows
                                     : quantize_by_operators(matrix, type, scaling);
}

Scaled quantize_transposed(const Tensor& matrix, const Scaled& quantized, Scaling scaling) {
  if (scaling == Scaling::rowwise)
    return quantize_by_operators(matrix.t(), quantized.values.scalar_type(), scaling);
  return {has_kernel(matrix, scaling) ? transposed_by_kernel(quantized.values)
                                      : quantized.values.t().contiguous(),
          quantized.scale};
}

BothWays quantize_both_ways(const Tensor& matrix, at::ScalarType type, Scaling scaling) {
  if (has_kernel(matrix, scaling)) return quantize_by_kernel(matrix, type, /*both_ways=*/true);
  const Scaled rows = quantize_by_operators(matrix, type, scaling);
  return {rows, quantize_transposed(matrix, rows, scaling)};
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
