// The rows of a tile of attention: softmax forward, and backward from the log-sum-exp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/rows.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include "hwy/foreach_target.h"
// The target's own headers come after it.
#include <algorithm>

#include "cpu/rows.h"
#include "hwy/highway.h"
#include "kernel_parts/exp-inl.h"
#include "kernel_parts/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace optrush::flash {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using fused::HWY_NAMESPACE::each_vector;
using fused::HWY_NAMESPACE::exp_of_moderate;
using fused::HWY_NAMESPACE::sum_of;

/// e^x for x <= 0; below -80 it is as good as nothing.
template <class D>
HWY_INLINE hn::Vec<D> exp_of_negative(D d, hn::Vec<D> x) {
  return exp_of_moderate(d, hn::Max(x, hn::Set(d, -80.0F)));
}

float largest_of(const float* x, int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto most = hn::Set(d, x[0]);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) most = hn::Max(most, hn::LoadU(d, x + i));
  float largest = hn::GetLane(hn::MaxOfLanes(d, most));
  for (; i < count; ++i) largest = std::max(largest, x[i]);
  return largest;
}

float exponentials_in(float* scores, int64_t visible, int64_t width, float* largest) {
  *largest = largest_of(scores, visible);
  const float sum = sum_of<float>(visible, [&](auto tag, int64_t i) HWY_ATTR {
    const auto weight = exp_of_negative(tag, hn::Sub(hn::LoadU(tag, scores + i), hn::Set(tag, *largest)));
    hn::StoreU(weight, tag, scores + i);
    return weight;
  });
  std::fill(scores + visible, scores + width, 0.0F);
  return sum;
}

void weights_in(float* scores, int64_t visible, int64_t width, float lse) {
  each_vector<float>(0, visible, [&](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(exp_of_negative(d, hn::Sub(hn::LoadU(d, scores + i), hn::Set(d, lse))), d, scores + i);
  });
  std::fill(scores + visible, scores + width, 0.0F);
}

void gradient_in(float* gradients, const float* weights, int64_t width, float inner) {
  each_vector<float>(0, width, [&](auto d, int64_t i) HWY_ATTR {
    const auto difference = hn::Sub(hn::LoadU(d, gradients + i), hn::Set(d, inner));
    hn::StoreU(hn::Mul(hn::LoadU(d, weights + i), difference), d, gradients + i);
  });
}
}  // namespace HWY_NAMESPACE
}  // namespace optrush::flash
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace optrush::flash {
HWY_EXPORT(exponentials_in);
HWY_EXPORT(weights_in);
HWY_EXPORT(gradient_in);
float cpu::exponentials(float* scores, int64_t visible, int64_t width, float* largest) {
  return HWY_DYNAMIC_DISPATCH(exponentials_in)(scores, visible, width, largest);
}
void cpu::weights_of(float* scores, int64_t visible, int64_t width, float lse) {
  HWY_DYNAMIC_DISPATCH(weights_in)(scores, visible, width, lse);
}
void cpu::scores_gradient(float* gradients, const float* weights, int64_t width, float inner) {
  HWY_DYNAMIC_DISPATCH(gradient_in)(gradients, weights, width, inner);
}
}  // namespace optrush::flash
#endif
