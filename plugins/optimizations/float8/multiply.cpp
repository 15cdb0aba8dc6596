#include <ATen/BlasBackend.h>
#include <ATen/Functions.h>

#include "optrush/forecast.h"
#include "scaled.h"

namespace optrush::float8 {
namespace {
/// In fp32, without rounding, because scales are powers of two.
Tensor exact(const Scaled& matrix) {
  const Tensor values = matrix.values.to(at::kFloat).unflatten(1, {-1, kGroup});
  if (matrix.scaling == Scaling::groupwise) return (values * matrix.scale.unsqueeze(2)).flatten(1);
  const Tensor scale = matrix.scale_of_blocks().unsqueeze(2).unsqueeze(1);
  return (values.unflatten(0, {-1, kGroup}) * scale).flatten(2).flatten(0, 1);
}

/// Scales of groups without gaps in memory, as cuBLASLt reads them.
Tensor without_gaps(const Scaled& matrix) {
  const Tensor& scale = matrix.scale;
  return scale.stride(1) == scale.size(0) ? scale : scale.t().clone(at::MemoryFormat::Contiguous).t();
}

Tensor multiply_in_groups(const Scaled& a, const Scaled& b, at::ScalarType out) {
  if (form_of(a.values) != at::kCUDA) return exact(a).mm(exact(b).t()).to(out);
  using at::blas::ScalingType;
  const bool blocks = b.scaling == Scaling::blockwise;
  const auto groups = static_cast<int64_t>(ScalingType::BlockWise1x128);
  const int64_t of_b = blocks ? static_cast<int64_t>(ScalingType::BlockWise128x128) : groups;
  const Tensors scale_a = {without_gaps(a)}, scale_b = {blocks ? b.scale.t() : without_gaps(b)};
  return at::_scaled_mm_v2(a.values, b.values.t(), scale_a, groups, /*swizzle_a=*/{}, scale_b, of_b,
                           /*swizzle_b=*/{}, /*bias=*/{}, out);
}
}  // namespace

Tensor multiply(const Scaled& a, const Scaled& b, at::ScalarType out, bool fast_sums) {
  if (in_groups(a.scaling)) return multiply_in_groups(a, b, out);
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
