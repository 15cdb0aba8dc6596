// The rows of a tile of attention: softmax forward, and backward from the log-sum-exp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/rows.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include "hwy/foreach_target.h"
// The target's own headers come after it.
#include <algorithm>
#include <cmath>

#include "cpu/rows.h"
#include "hwy/highway.h"
#include "kernel_parts/exp-inl.h"
#include "kernel_parts/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace optrush::flash {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using cpu::Range;
using fused::HWY_NAMESPACE::Bf16;
using fused::HWY_NAMESPACE::each_vector;
using fused::HWY_NAMESPACE::exp_of_nonpositive;
using fused::HWY_NAMESPACE::load;
using fused::HWY_NAMESPACE::store;
using fused::HWY_NAMESPACE::sum_of;

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

void hide_others(float* scores, Range visible, int64_t width) {
  std::fill(scores, scores + visible.begin, 0.0F);
  std::fill(scores + visible.end, scores + width, 0.0F);
}

float exponentials_in(float* scores, Range visible, int64_t width, float scale, float* lse) {
  float* const seen = scores + visible.begin;
  const int64_t count = visible.end - visible.begin;
  const float largest = scale * largest_of(seen, count);
  const float sum = sum_of<float>(count, [&](auto tag, int64_t i) HWY_ATTR {
    const auto below = hn::MulSub(hn::Set(tag, scale), hn::LoadU(tag, seen + i), hn::Set(tag, largest));
    const auto weight = exp_of_nonpositive(tag, below);
    hn::StoreU(weight, tag, seen + i);
    return weight;
  });
  hide_others(scores, visible, width);
  *lse = largest + std::log(sum);
  return sum;
}

void weights_in(float* scores, Range visible, int64_t width, float scale, float lse) {
  each_vector<float>(visible.begin, visible.end, [&](auto d, int64_t i) HWY_ATTR {
    const auto below = hn::MulSub(hn::Set(d, scale), hn::LoadU(d, scores + i), hn::Set(d, lse));
    hn::StoreU(exp_of_nonpositive(d, below), d, scores + i);
  });
  hide_others(scores, visible, width);
}

void gradient_in(float* gradients, const float* weights, int64_t width, float scale, float inner) {
  each_vector<float>(0, width, [&](auto d, int64_t i) HWY_ATTR {
    const auto difference = hn::Sub(hn::LoadU(d, gradients + i), hn::Set(d, inner));
    const auto weight = hn::Mul(hn::Set(d, scale), hn::LoadU(d, weights + i));
    hn::StoreU(hn::Mul(weight, difference), d, gradients + i);
  });
}

template <class T>
float inner_product_of(const T* a, const T* b, int64_t count) {
  return sum_of<float>(count,
                       [&](auto d, int64_t i) HWY_ATTR { return hn::Mul(load(d, a + i), load(d, b + i)); });
}
float inner_product_of_floats(const float* a, const float* b, int64_t count) {
  return inner_product_of(a, b, count);
}
float inner_product_of_bf16(const Bf16* a, const Bf16* b, int64_t count) {
  return inner_product_of(a, b, count);
}

template <class T>
void scale_to(const float* from, float factor, int64_t count, T* to) {
  each_vector<float>(0, count, [&](auto d, int64_t i) HWY_ATTR {
    store(d, hn::Mul(hn::Set(d, factor), hn::LoadU(d, from + i)), to + i, /*stream=*/false);
  });
}
void scale_to_floats(const float* from, float factor, int64_t count, float* to) {
  scale_to(from, factor, count, to);
}
void scale_to_bf16(const float* from, float factor, int64_t count, Bf16* to) {
  scale_to(from, factor, count, to);
}
}  // namespace HWY_NAMESPACE
}  // namespace optrush::flash
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace optrush::flash {
HWY_EXPORT(exponentials_in);
HWY_EXPORT(weights_in);
HWY_EXPORT(gradient_in);
HWY_EXPORT(inner_product_of_floats);
HWY_EXPORT(inner_product_of_bf16);
HWY_EXPORT(scale_to_floats);
HWY_EXPORT(scale_to_bf16);

namespace cpu {
float exponentials(float* scores, Range visible, int64_t width, float scale, float* lse) {
  return HWY_DYNAMIC_DISPATCH(exponentials_in)(scores, visible, width, scale, lse);
}
void weights_of(float* scores, Range visible, int64_t width, float scale, float lse) {
  HWY_DYNAMIC_DISPATCH(weights_in)(scores, visible, width, scale, lse);
}
void scores_gradient(float* gradients, const float* weights, int64_t width, float scale, float inner) {
  HWY_DYNAMIC_DISPATCH(gradient_in)(gradients, weights, width, scale, inner);
}
float inner_product(const float* a, const float* b, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(inner_product_of_floats)(a, b, count);
}
float inner_product(const c10::BFloat16* a, const c10::BFloat16* b, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(inner_product_of_bf16)(reinterpret_cast<const hwy::bfloat16_t*>(a),
                                                     reinterpret_cast<const hwy::bfloat16_t*>(b), count);
}
void scaled(const float* from, float factor, int64_t count, float* to) {
  HWY_DYNAMIC_DISPATCH(scale_to_floats)(from, factor, count, to);
}
void scaled(const float* from, float factor, int64_t count, c10::BFloat16* to) {
  HWY_DYNAMIC_DISPATCH(scale_to_bf16)(from, factor, count, reinterpret_cast<hwy::bfloat16_t*>(to));
}
}  // namespace cpu
}  // namespace optrush::flash
#endif
