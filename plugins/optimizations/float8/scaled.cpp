#include "scaled.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <limits>

#include "on_gpu.h"
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

/// A matrix whose numbers of one scale are in dimensions of their own.
struct Split {
  Tensor numbers;
  std::vector<int64_t> of_a_scale;
};
Split split(const Tensor& matrix, Scaling scaling) {
  switch (scaling) {
    case Scaling::tensorwise:
      return {matrix, {0, 1}};
    case Scaling::rowwise:
      return {matrix, {1}};
    case Scaling::groupwise:
      return {matrix.unflatten(1, {-1, kGroup}), {2}};
    case Scaling::blockwise:
      return {matrix.unflatten(1, {-1, kGroup}).unflatten(0, {-1, kGroup}), {1, 3}};
  }
  return {};
}

/// The power of two at or below each number: its sign and its exponent.
Tensor power_of_two_below(const Tensor& positive) {
  constexpr int64_t kExponent = 0x7F800000;
  return positive.view(at::kInt).bitwise_and(kExponent).view(at::kFloat);
}

/// The largest absolute value in the range of each scale; 0 of no numbers, as of an expert without tokens.
Tensor largest_in(const Split& matrix) {
  const auto& [numbers, of_a_scale] = matrix;
  if (numbers.numel() > 0)
    return at::linalg_vector_norm(numbers, std::numeric_limits<double>::infinity(), of_a_scale,
                                  /*keepdim=*/true, at::kFloat);
  auto sizes = numbers.sizes().vec();
  for (const int64_t axis : of_a_scale) sizes.at(static_cast<size_t>(axis)) = 1;
  return at::zeros(sizes, numbers.options().dtype(at::kFloat));
}

/// The factor of each matrix; one factor if all matrices share it.
Tensors factors_of(const std::vector<Split>& matrices, at::ScalarType type, Scaling scaling,
                   Stacking stacking, const Delayed& delayed) {
  Tensors largest;
  for (const Split& matrix : matrices) largest.push_back(largest_in(matrix));
  if (scaling == Scaling::tensorwise || (scaling == Scaling::rowwise && stacking == Stacking::horizontal)) {
    for (size_t i = 1; i < largest.size(); ++i) largest[0] = at::maximum(largest[0], largest[i]);
    largest.resize(1);
  }
  if (delayed.seen.defined()) {
    Tensor seen = delayed.seen.narrow(0, 0, 1);
    seen.copy_(at::maximum(seen, largest[0].view({1})));
  }
  if (delayed.past.defined()) {
    const Tensor past = delayed.past.max().view({1, 1});
    const Tensor factor = past.clamp_min(kSmallest).reciprocal() * largest_of(type);
    return {factor.masked_fill(past == 0, 1)};
  }
  for (Tensor& each : largest) {
    each = each.clamp_min(kSmallest).reciprocal() * largest_of(type);
    if (scaling != Scaling::tensorwise) each = power_of_two_below(each);
  }
  return largest;
}

/// Scales in the layout of Scaled::scale.
Tensor laid_out(const Tensor& scale, Scaling scaling) {
  if (!in_groups(scaling)) return scale;
  if (scaling == Scaling::groupwise) return scale.t().contiguous().t();
  const int64_t missing = padded_blocks(scale.size(1)) - scale.size(1);
  return missing == 0 ? scale.contiguous() : at::constant_pad_nd(scale, {0, missing});
}

/// Numbers beyond the range become the largest one, and infinities become NaN, so that they stay visible.
Tensor saturated(const Tensor& scaled, const Tensor& numbers, at::ScalarType type) {
  return scaled.clamp(-largest_of(type), largest_of(type))
      .masked_fill(numbers.isinf(), std::numeric_limits<double>::quiet_NaN());
}

Scaled quantize_by_operators(at::TensorList matrices, at::ScalarType type, Scaling scaling, Stacking stacking,
                             const Delayed& delayed = {}) {
  const int64_t axis = stacking == Stacking::vertical ? 0 : 1;
  std::vector<Split> splits;
  for (const Tensor& matrix : matrices) splits.push_back(split(matrix, scaling));
  const Tensors factors = factors_of(splits, type, scaling, stacking, delayed);
  Tensors values, scales;
  for (size_t i = 0; i < matrices.size(); ++i) {
    // The factor has as many dimensions as the matrix: the product is in fp32 and rounded once.
    Tensor scaled = splits[i].numbers * factors[std::min(i, factors.size() - 1)];
    if (delayed.past.defined()) scaled = saturated(scaled, splits[i].numbers, type);
    values.push_back(scaled.to(type).reshape(matrices[i].sizes()).contiguous());
  }
  for (const Tensor& factor : factors) {
    const Tensor scale = factor.reciprocal();
    scales.push_back(!in_groups(scaling)             ? scale
                     : scaling == Scaling::groupwise ? scale.squeeze(2)
                                                     : scale.squeeze(3).squeeze(1));
  }
  return {joined(values, axis), laid_out(joined(scales, in_groups(scaling) ? axis : 0), scaling), scaling};
}

Tensors transposes_of(at::TensorList matrices) {
  Tensors all;
  for (const Tensor& matrix : matrices) all.push_back(matrix.t());
  return all;
}

bool has_kernel(at::TensorList matrices, Scaling scaling) {
  return scaling != Scaling::rowwise && !tracing() && form_of(matrices[0]) == at::kCUDA;
}
}  // namespace

bool in_groups(Scaling scaling) { return scaling == Scaling::groupwise || scaling == Scaling::blockwise; }

int64_t padded_blocks(int64_t blocks) {
  constexpr int64_t kMultiple = 4;
  return (blocks + kMultiple - 1) / kMultiple * kMultiple;
}

Tensor Scaled::scale_of_blocks() const { return scale.narrow(1, 0, values.size(1) / kGroup); }

Scaled Scaled::rows(int64_t first, int64_t count) const {
  const int64_t rows = scaling == Scaling::blockwise ? kGroup : 1;  // of a scale
  return {values.narrow(0, first, count),
          scaling == Scaling::tensorwise ? scale : scale.narrow(0, first / rows, count / rows), scaling};
}

Scaled quantize(at::TensorList matrices, at::ScalarType type, Scaling scaling, Stacking stacking,
                const Delayed& delayed) {
  if (!has_kernel(matrices, scaling))
    return quantize_by_operators(matrices, type, scaling, stacking, delayed);
  if (scaling == Scaling::blockwise) return on_gpu::quantize_blocks(matrices);
  if (scaling == Scaling::groupwise)
    return on_gpu::quantize_groups(matrices, stacking, /*both_ways=*/false).rows;
  return on_gpu::quantize(matrices, type, stacking, /*both_ways=*/false, delayed).rows;
}

Scaled quantize_transposed(at::TensorList matrices, const Scaled& quantized, Scaling scaling,
                           Stacking stacking) {
  if (scaling == Scaling::rowwise || scaling == Scaling::groupwise)
    return quantize_by_operators(transposes_of(matrices), quantized.values.scalar_type(), scaling,
                                 stacking == Stacking::vertical ? Stacking::horizontal : Stacking::vertical);
  return {
      has_kernel(matrices, scaling) ? on_gpu::transposed(quantized.values)
                                    : quantized.values.t().contiguous(),
      scaling == Scaling::blockwise ? laid_out(quantized.scale_of_blocks().t(), scaling) : quantized.scale,
      scaling};
}

BothWays quantize_both_ways(at::TensorList beside, at::ScalarType type, Scaling scaling,
                            const Delayed& delayed) {
  if (has_kernel(beside, scaling))
    return scaling == Scaling::groupwise
               ? on_gpu::quantize_groups(beside, Stacking::horizontal, /*both_ways=*/true)
               : on_gpu::quantize(beside, type, Stacking::horizontal, /*both_ways=*/true, delayed);
  const Scaled rows = quantize_by_operators(beside, type, scaling, Stacking::horizontal, delayed);
  return {rows, quantize_transposed(beside, rows, scaling, Stacking::horizontal)};
}
}  // namespace optrush::float8
