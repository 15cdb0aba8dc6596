// Softmax cross entropy and its gradient in place on a CPU: a part of a row that fits the first cache is
// first searched for its maximum and then summed, so memory is read once for both.
#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/cross_entropy.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include "hwy/foreach_target.h"
// The target's own headers come after it.
#include "cross_entropy.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernel_parts/exp-inl.h"
#include "kernel_parts/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace optrush::fused {
namespace HWY_NAMESPACE {
/// e^x for x <= 0, a NaN for a NaN.
template <class D>
HWY_INLINE hn::Vec<D> exponential(D d, hn::Vec<D> x) {
  if constexpr (std::is_same_v<hn::TFromD<D>, float>)
    return exp_of_nonpositive(d, x);
  else
    return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x));
}

/// Numbers of a row that stay in the first cache.
constexpr int64_t kPart = 2048;

/// Logits without a cap.
template <bool capped>
struct Cap {
  explicit Cap(double) {}
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D, hn::Vec<D> logits) const {
    return logits;
  }
  /// The gradient with respect to the logits before the cap, from the gradient with respect to the capped
  /// logits.
  template <class D>
  HWY_INLINE hn::Vec<D> before(D, hn::Vec<D> gradient, hn::Vec<D>) const {
    return gradient;
  }
};
/// cap tanh(logit / cap)
template <>
struct Cap<true> {
  double cap;
  explicit Cap(double of) : cap(of) {}
  template <class D>
  HWY_INLINE hn::Vec<D> operator()(D d, hn::Vec<D> logits) const {
    using W = hn::TFromD<D>;
    const auto scaled = hn::Mul(logits, hn::Set(d, static_cast<W>(1 / cap)));
    const auto capped = hn::Mul(hn::Set(d, static_cast<W>(cap)), hn::Tanh(d, scaled));
    return hn::IfThenElse(hn::IsNaN(logits), logits, capped);
  }
  template <class D>
  HWY_INLINE hn::Vec<D> before(D d, hn::Vec<D> gradient, hn::Vec<D> capped) const {
    using W = hn::TFromD<D>;
    const auto t = hn::Mul(capped, hn::Set(d, static_cast<W>(1 / cap)));
    return hn::Mul(gradient, hn::NegMulAdd(t, t, hn::Set(d, static_cast<W>(1))));
  }
};

template <class W, class T, class Capping>
W log_sum_of_exponentials(const T* row, int64_t width, const Capping& cap) {
  const hn::ScalableTag<W> d;
  const hn::CappedTag<W, 1> one;
  W max = std::numeric_limits<W>::lowest(), sum = 0;
  for (int64_t begin = 0; begin < width; begin += kPart) {
    const T* part = row + begin;
    const int64_t count = std::min(kPart, width - begin);
    auto top = hn::Set(d, max);
    W rest = max;
    each_vector<W>(0, count, [&](auto tag, int64_t i) HWY_ATTR {
      if constexpr (std::is_same_v<decltype(tag), decltype(d)>)
        top = hn::Max(top, cap(tag, load(tag, part + i)));
      else
        rest = std::max(rest, hn::GetLane(cap(one, load(one, part + i))));
    });
    const W larger = std::max(rest, hn::GetLane(hn::MaxOfLanes(d, top)));
    sum *= std::exp(max - larger);
    max = larger;
    sum += sum_of<W>(count, [&](auto tag, int64_t i) HWY_ATTR {
      return exponential(tag, hn::Sub(cap(tag, load(tag, part + i)), hn::Set(tag, max)));
    });
  }
  return max + std::log(sum);
}

template <class T, bool capped>
void cross_entropy_rows(const CrossEntropy& p, int64_t begin, int64_t end) {
  using W = Wide<T>;
  const Cap<capped> cap(p.soft_cap);
  const W times = p.factor == nullptr ? W(1) : static_cast<W>(*p.factor);
  for (int64_t i = begin; i < end; ++i) {
    T* row = static_cast<T*>(p.logits) + i * p.stride;
    W& loss = static_cast<W*>(p.losses)[i];
    const int64_t label = p.labels[i];
    const hn::CappedTag<W, 1> one;
    if (label == kIgnored) {
      loss = 0;
      if (p.gradient)
        each_vector<W>(0, p.width,
                       [&](auto d, int64_t j) HWY_ATTR { store(d, hn::Zero(d), row + j, false); });
      continue;
    }
    const auto logit_of_label = cap(one, load(one, row + label));
    const W all = log_sum_of_exponentials<W>(row, p.width, cap), of_label = hn::GetLane(logit_of_label);
    loss = all - of_label;
    if (!p.gradient) continue;
    each_vector<W>(0, p.width, [&](auto d, int64_t j) HWY_ATTR {
      const auto logits = cap(d, load(d, row + j));
      const auto softmax = exponential(d, hn::Sub(logits, hn::Set(d, all)));
      store(d, hn::Mul(cap.before(d, softmax, logits), hn::Set(d, times)), row + j, false);
    });
    const auto of_softmax = hn::Set(one, std::exp(of_label - all) - 1);
    store(one, hn::Mul(cap.before(one, of_softmax, logit_of_label), hn::Set(one, times)), row + label, false);
  }
}

void cross_entropy_each_type(const CrossEntropy& p, int64_t begin, int64_t end) {
  with_type(p.type, [&](auto* t) HWY_ATTR {
    using T = std::remove_pointer_t<decltype(t)>;
    p.soft_cap != 0 ? cross_entropy_rows<T, true>(p, begin, end)
                    : cross_entropy_rows<T, false>(p, begin, end);
  });
}
}  // namespace HWY_NAMESPACE
}  // namespace optrush::fused
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace optrush::fused {
HWY_EXPORT(cross_entropy_each_type);
void cpu::cross_entropy(const CrossEntropy& p, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(cross_entropy_each_type)(p, begin, end);
}
}  // namespace optrush::fused
#endif
