#include "scales.h"

#include <ATen/Functions.h>

#include "numbers.h"

namespace optrush::nf4 {
namespace {
constexpr double kHighest = 127;

/// Repeats the value of each group for each of its scales: (groups) to (count).
Tensor for_each_scale(const Tensor& of_groups, int64_t count) {
  return of_groups.unsqueeze(1).expand({of_groups.size(0), kScales}).reshape({-1}).narrow(0, 0, count);
}
}  // namespace

Tensors encode_scales(const Tensor& scales) {
  const int64_t count = scales.size(0), missing = (kScales - count % kScales) % kScales;
  // Repeats the last scale to fill an incomplete group, so that the mean stays within its range.
  const Tensor groups =
      at::cat({scales, scales.narrow(0, count - 1, 1).expand({missing})}).view({-1, kScales});
  const Tensor means = groups.mean(1);
  const Tensor steps = (groups - means.unsqueeze(1)).abs().amax(1) / kHighest;
  const Tensor inverse = at::where(steps > 0, steps.reciprocal(), at::zeros_like(steps));
  const Tensor codes = ((groups - means.unsqueeze(1)) * inverse.unsqueeze(1)).round().to(at::kChar);
  // Removes the fill.
  return {codes.view({-1}).narrow(0, 0, count).clone(), means, steps};
}

Tensor decode_scales(const Tensor& codes, const Tensor& means, const Tensor& steps) {
  const int64_t count = codes.size(0);
  return for_each_scale(means, count) + codes.to(at::kFloat) * for_each_scale(steps, count);
}
}  // namespace optrush::nf4
