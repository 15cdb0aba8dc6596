// The rows of a tile of attention: softmax forward, and backward from the log-sum-exp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/rows.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include "hwy/foreach_target.h"
// The target's own headers come after it.
#include <cmath>
#include <limits>

#include "cpu/rows.h"
#include "hwy/highway.h"
#include "kernel_parts/exp-inl.h"
#include "kernel_parts/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace optrush::flash {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using cpu::Range;
using cpu::SoftmaxOfRow;
using fused::HWY_NAMESPACE::Bf16;
using fused::HWY_NAMESPACE::each_vector;
using fused::HWY_NAMESPACE::exp_of_nonpositive;
using fused::HWY_NAMESPACE::load;
using fused::HWY_NAMESPACE::store;
using fused::HWY_NAMESPACE::sum_of;

using Floats = hn::ScalableTag<float>;
using Mask = hn::Mask<Floats>;

/// Calls visit(column) for whole vectors of visible columns, visit(column, mask) for vectors that are visible
/// in part, and hide(column) for the others.
template <class Visit, class Hide>
HWY_INLINE void each_vector_of(Range visible, int64_t width, const Visit& visit, const Hide& hide) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto first = [&](int64_t count) HWY_ATTR { return hn::FirstN(d, static_cast<size_t>(count)); };
  int64_t c = 0;
  for (; c + lanes <= visible.begin; c += lanes) hide(c);
  if (c < visible.begin) {
    visit(c, hn::AndNot(first(visible.begin - c), first(visible.end - c)));
    c += lanes;
  }
  for (; c + lanes <= visible.end; c += lanes) visit(c);
  if (c < visible.end) {
    visit(c, first(visible.end - c));
    c += lanes;
  }
  for (; c < width; c += lanes) hide(c);
}
HWY_INLINE hn::Vec<Floats> only(hn::Vec<Floats> value) { return value; }
HWY_INLINE hn::Vec<Floats> only(hn::Vec<Floats> value, Mask mask) { return hn::IfThenElseZero(mask, value); }

HWY_INLINE float largest_of(const float* x, Range visible) {
  const Floats d;
  const auto least = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto most = least;
  each_vector_of(
      visible, visible.end,
      [&](int64_t c, auto... mask) HWY_ATTR {
        const auto of_vector = hn::LoadU(d, x + c);
        if constexpr (sizeof...(mask) == 0)
          most = hn::Max(most, of_vector);
        else
          most = hn::Max(most, hn::IfThenElse(mask..., of_vector, least));
      },
      [](int64_t) {});
  return hn::GetLane(hn::MaxOfLanes(d, most));
}

template <class T>
float exponentials_in(const float* scores, Range visible, int64_t width, float scale, float* lse,
                      T* weights) {
  const Floats d;
  const float largest = scale * largest_of(scores, visible);
  auto sums = hn::Zero(d);
  each_vector_of(
      visible, width,
      [&](int64_t c, auto... mask) HWY_ATTR {
        const auto below = hn::MulSub(hn::Set(d, scale), hn::LoadU(d, scores + c), hn::Set(d, largest));
        const auto weight = only(exp_of_nonpositive(d, below), mask...);
        store(d, weight, weights + c, /*stream=*/false);
        sums = hn::Add(sums, weight);
      },
      [&](int64_t c) HWY_ATTR { store(d, hn::Zero(d), weights + c, /*stream=*/false); });
  const float sum = hn::GetLane(hn::SumOfLanes(d, sums));
  *lse = largest + std::log(sum);
  return sum;
}
float exponentials_to_floats(const float* scores, Range visible, int64_t width, float scale, float* lse,
                             float* weights) {
  return exponentials_in(scores, visible, width, scale, lse, weights);
}
float exponentials_to_bf16(const float* scores, Range visible, int64_t width, float scale, float* lse,
                           Bf16* weights) {
  return exponentials_in(scores, visible, width, scale, lse, weights);
}

template <class T>
void gradient_in(const float* scores, const float* gradients, Range visible, int64_t width, SoftmaxOfRow row,
                 T* weights, T* of_scores) {
  const Floats d;
  const auto write_both = [&](int64_t c, auto weight, auto of_score) HWY_ATTR {
    store(d, weight, weights + c, /*stream=*/false);
    store(d, of_score, of_scores + c, /*stream=*/false);
  };
  each_vector_of(
      visible, width,
      [&](int64_t c, auto... mask) HWY_ATTR {
        const auto scale = hn::Set(d, row.scale);
        const auto below = hn::MulSub(scale, hn::LoadU(d, scores + c), hn::Set(d, row.lse));
        const auto weight = only(exp_of_nonpositive(d, below), mask...);
        const auto difference = hn::Sub(hn::LoadU(d, gradients + c), hn::Set(d, row.inner));
        write_both(c, weight, only(hn::Mul(hn::Mul(scale, weight), difference), mask...));
      },
      [&](int64_t c) HWY_ATTR { write_both(c, hn::Zero(d), hn::Zero(d)); });
}
void gradient_in_floats(const float* scores, const float* gradients, Range visible, int64_t width,
                        SoftmaxOfRow row, float* weights, float* of_scores) {
  gradient_in(scores, gradients, visible, width, row, weights, of_scores);
}
void gradient_in_bf16(const float* scores, const float* gradients, Range visible, int64_t width,
                      SoftmaxOfRow row, Bf16* weights, Bf16* of_scores) {
  gradient_in(scores, gradients, visible, width, row, weights, of_scores);
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
HWY_EXPORT(exponentials_to_floats);
HWY_EXPORT(exponentials_to_bf16);
HWY_EXPORT(gradient_in_floats);
HWY_EXPORT(gradient_in_bf16);
HWY_EXPORT(inner_product_of_floats);
HWY_EXPORT(inner_product_of_bf16);
HWY_EXPORT(scale_to_floats);
HWY_EXPORT(scale_to_bf16);

namespace cpu {
namespace {
hwy::bfloat16_t* bits_of(c10::BFloat16* x) { return reinterpret_cast<hwy::bfloat16_t*>(x); }
}  // namespace

float exponentials(const float* scores, Range visible, int64_t width, float scale, float* lse,
                   float* weights) {
  return HWY_DYNAMIC_DISPATCH(exponentials_to_floats)(scores, visible, width, scale, lse, weights);
}
float exponentials(const float* scores, Range visible, int64_t width, float scale, float* lse,
                   c10::BFloat16* weights) {
  return HWY_DYNAMIC_DISPATCH(exponentials_to_bf16)(scores, visible, width, scale, lse, bits_of(weights));
}
void softmax_gradient(const float* scores, const float* gradients, Range visible, int64_t width,
                      SoftmaxOfRow row, float* weights, float* of_scores) {
  HWY_DYNAMIC_DISPATCH(gradient_in_floats)(scores, gradients, visible, width, row, weights, of_scores);
}
void softmax_gradient(const float* scores, const float* gradients, Range visible, int64_t width,
                      SoftmaxOfRow row, c10::BFloat16* weights, c10::BFloat16* of_scores) {
  HWY_DYNAMIC_DISPATCH(gradient_in_bf16)
  (scores, gradients, visible, width, row, bits_of(weights), bits_of(of_scores));
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
  HWY_DYNAMIC_DISPATCH(scale_to_bf16)(from, factor, count, bits_of(to));
}
}  // namespace cpu
}  // namespace optrush::flash
#endif
