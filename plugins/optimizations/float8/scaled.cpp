#include "scaled.h"

#include <ATen/Functions.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <array>
#include <limits>

#include "gpu/quantize.h"
#include "kernel_parts/largest.h"
#include "kernel_parts/tensors.h"
#include "optrush/edit.h"
#include "optrush/forecast.h"

namespace optrush::float8 {
namespace {
/// Below this a matrix counts as zero, and its scale stays finite.
constexpr double kSmallest = 1e-12;

double largest_of(at::ScalarType type) { return type == at::kFloat8_e5m2 ? 57344 : 448; }

Tensor joined(const Tensors& parts, int64_t axis) {
  return parts.size() == 1 ? parts.front() : at::cat(parts, axis);
}

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

/// The factor of each matrix; one factor if all matrices share it.
Tensors factors_of(at::TensorList matrices, at::ScalarType type, Scaling scaling, Stacking stacking) {
  Tensors largest;
  for (const Tensor& matrix : matrices) largest.push_back(largest_in(matrix, scaling));
  if (scaling == Scaling::tensorwise || stacking == Stacking::horizontal) {
    for (size_t i = 1; i < largest.size(); ++i) largest[0] = at::maximum(largest[0], largest[i]);
    largest.resize(1);
  }
  for (Tensor& each : largest) {
    each = each.clamp_min(kSmallest).reciprocal() * largest_of(type);
    if (scaling == Scaling::rowwise) each = power_of_two_below(each);
  }
  return largest;
}

Scaled quantize_by_operators(at::TensorList matrices, at::ScalarType type, Scaling scaling,
                             Stacking stacking) {
  const Tensors factors = factors_of(matrices, type, scaling, stacking);
  Tensors values;
  for (size_t i = 0; i < matrices.size(); ++i)
    // The factor has two dimensions: the product is in fp32 and rounded once.
    values.push_back((matrices[i] * factors[std::min(i, factors.size() - 1)]).to(type).contiguous());
  return {joined(values, stacking == Stacking::vertical ? 0 : 1), joined(factors, 0).reciprocal()};
}

Tensors transposes_of(at::TensorList matrices) {
  Tensors all;
  for (const Tensor& matrix : matrices) all.push_back(matrix.t());
  return all;
}

bool has_kernel(at::TensorList matrices, Scaling scaling) {
  return scaling == Scaling::tensorwise && !tracing() && form_of(matrices[0]) == at::kCUDA;
}

/// Parts of the largest value of all matrices. If they are not noted, a pass over each matrix finds them.
struct LargestParts {
  Tensor parts;
  double bytes = 0;  ///< that are read to find it
  int64_t launches = 0;
};
LargestParts largest_parts(at::TensorList given, const Tensors& matrices) {
  LargestParts found;
  Tensors parts;
  for (size_t i = 0; i < matrices.size(); ++i) {
    parts.push_back(fused::noted_largest(given[i]));
    if (parts.back().defined()) continue;
    if (matrices[i].numel() == 0) {  // an expert without tokens
      parts.back() = at::zeros({1}, matrices[i].options().dtype(at::kFloat).requires_grad(false));
      continue;
    }
    const gpu::Numbers x{fused::type_of(matrices[i], "float8"), matrices[i].const_data_ptr(),
                         matrices[i].numel()};
    parts.back() =
        at::empty({gpu::parts_of(x)}, matrices[i].options().dtype(at::kFloat).requires_grad(false));
    found.bytes += bytes_of({matrices[i]});
    ++found.launches;
    if (is_forecast(matrices[i])) continue;
    const c10::DeviceGuard guard(matrices[i].device());
    gpu::find_largest(x, parts.back().mutable_data_ptr<float>());
  }
  found.parts = joined(parts, 0);
  return found;
}

BothWays quantize_by_kernel(at::TensorList given, at::ScalarType type, Stacking stacking, bool both_ways) {
  Tensors matrices;
  int64_t rows = 0, columns = 0;
  for (const Tensor& each : given) {
    matrices.push_back(each.contiguous());
    rows = stacking == Stacking::vertical ? rows + each.size(0) : each.size(0);
    columns = stacking == Stacking::horizontal ? columns + each.size(1) : each.size(1);
  }
  const auto options = matrices[0].options().requires_grad(false);
  const LargestParts largest = largest_parts(given, matrices);
  BothWays made;
  made.rows = {at::empty({rows, columns}, options.dtype(type)), at::empty({1, 1}, options.dtype(at::kFloat))};
  if (both_ways) made.columns = {at::empty({columns, rows}, options.dtype(type)), made.rows.scale};
  double bytes = largest.bytes + bytes_of({made.rows.values, made.columns.values});
  for (const Tensor& matrix : matrices) bytes += bytes_of({matrix});
  const NotedKernel kernel("float8_quantize", bytes, largest.launches + std::ssize(matrices));
  if (is_forecast(matrices[0])) return made;
  const c10::DeviceGuard guard(options.device());
  int64_t row = 0, column = 0;
  for (const Tensor& matrix : matrices) {
    gpu::quantize({.x = {fused::type_of(matrix, "float8"), matrix.const_data_ptr(), matrix.numel()},
                   .mantissa = type == at::kFloat8_e5m2 ? 2 : 3,
                   .rows = matrix.size(0),
                   .columns = matrix.size(1),
                   .all_columns = columns,
                   .largest = largest.parts.const_data_ptr<float>(),
                   .parts = largest.parts.numel(),
                   .values = static_cast<uint8_t*>(made.rows.values.data_ptr()) + row * columns + column,
                   .transposed = both_ways
                                     ? static_cast<uint8_t*>(made.columns.values.data_ptr()) + column * rows
                                     : nullptr,
                   .scale = static_cast<float*>(made.rows.scale.data_ptr())});
    (stacking == Stacking::vertical ? row : column) += matrix.size(stacking == Stacking::vertical ? 0 : 1);
  }
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

Scaled Scaled::rows(int64_t first, int64_t count) const {
  return {values.narrow(0, first, count), scale.size(0) == 1 ? scale : scale.narrow(0, first, count)};
}

Scaled quantize(at::TensorList matrices, at::ScalarType type, Scaling scaling, Stacking stacking) {
  return has_kernel(matrices, scaling)
             ? quantize_by_kernel(matrices, type, stacking, /*both_ways=*/false).rows
             : quantize_by_operators(matrices, type, scaling, stacking);
}

Scaled quantize_transposed(at::TensorList matrices, const Scaled& quantized, Scaling scaling,
                           Stacking stacking) {
  if (scaling == Scaling::rowwise)
    return quantize_by_operators(transposes_of(matrices), quantized.values.scalar_type(), scaling,
                                 stacking == Stacking::vertical ? Stacking::horizontal : Stacking::vertical);
  return {has_kernel(matrices, scaling) ? transposed_by_kernel(quantized.values)
                                        : quantized.values.t().contiguous(),
          quantized.scale};
}

BothWays quantize_both_ways(at::TensorList beside, at::ScalarType type, Scaling scaling) {
  if (has_kernel(beside, scaling))
    return quantize_by_kernel(beside, type, Stacking::horizontal, /*both_ways=*/true);
  const Scaled rows = quantize_by_operators(beside, type, scaling, Stacking::horizontal);
  return {rows, quantize_transposed(beside, rows, scaling, Stacking::horizontal)};
}

Tensor multiply(const Scaled& a, const Scaled& b, at::ScalarType out, bool fast_sums) {
  const bool one_each = a.scale.numel() == 1 && b.scale.numel() == 1;
  if (one_each || form_of(a.values) == at::kCUDA)
    return at::_scaled_mm(a.values, b.values.t(), a.scale, b.scale.t(), /*bias=*/{}, /*scale_result=*/{}, out,
                          fast_sums);
  // On a CPU the product supports only one scale. Scales of rows are applied to the sums, in fp32.
  const Tensor one = at::ones({1, 1}, a.scale.options());
  const Tensor sums = at::_scaled_mm(a.values, b.values.t(), one, one, {}, {}, at::kFloat, fast_sums);
  return (sums * a.scale * b.scale.t()).to(out);
}
}  // namespace optrush::float8
