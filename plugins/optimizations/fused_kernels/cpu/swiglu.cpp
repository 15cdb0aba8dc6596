// SiLU(gate) * up (arXiv:2002.05202) on a CPU, element by element.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/swiglu.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include "hwy/foreach_target.h"
// The target's own headers come after it.
#include "hwy/cache_control.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernel_parts/exp-inl.h"
#include "kernel_parts/lanes-inl.h"
#include "kernels.h"

HWY_BEFORE_NAMESPACE();
namespace optrush::fused {
namespace HWY_NAMESPACE {
/// 1 / x in fp32 for x of a middling size. A division of a long vector takes as long as the whole
/// exponential; one Newton step takes an estimate to the last bit or two.
template <class D>
HWY_INLINE hn::Vec<D> reciprocal(D d, hn::Vec<D> x) {
  const auto estimate = hn::ApproximateReciprocal(x);
  return hn::MulAdd(estimate, hn::NegMulAdd(x, estimate, hn::Set(d, 1.0F)), estimate);
}

template <class D>
struct Sigmoid {
  hn::Vec<D> value, rest;  ///< rest: 1 - value, exact where value is almost 1
};
template <class D>
HWY_INLINE Sigmoid<D> sigmoid(D d, hn::Vec<D> x) {
  using W = hn::TFromD<D>;
  // Beyond, the sigmoid is 0 or 1 to any type.
  const auto most = hn::Set(d, sizeof(W) == 8 ? W(700) : W(80));
  const auto bounded = hn::Max(hn::Min(x, most), hn::Neg(most));
  const auto one = hn::Set(d, W(1));
  if constexpr (std::is_same_v<W, float>) {
    const auto e = exp_of_moderate(d, hn::Neg(bounded)), value = reciprocal(d, hn::Add(one, e));
    return {value, hn::Mul(e, value)};
  } else {
    const auto e = hn::Exp(d, hn::Neg(bounded)), value = hn::Div(one, hn::Add(one, e));
    return {value, hn::Mul(e, value)};
  }
}

template <class T>
void forward_range(const SwigluForward& p, int64_t begin, int64_t end) {
  const auto *gate = static_cast<const T*>(p.gate), *up = static_cast<const T*>(p.up);
  auto* out = static_cast<T*>(p.out);
  each_vector<Wide<T>>(begin, end, [&](auto d, int64_t i) HWY_ATTR {
    const auto x = load(d, gate + i);
    store(d, hn::Mul(hn::Mul(x, sigmoid(d, x).value), load(d, up + i)), out + i, p.stream);
  });
  if (p.stream) hwy::FlushStream();
}

template <class T>
void backward_range(const SwigluBackward& p, int64_t begin, int64_t end) {
  const auto *gate = static_cast<const T*>(p.gate), *up = static_cast<const T*>(p.up);
  const auto* out_gradient = static_cast<const T*>(p.out_gradient);
  auto *gate_gradient = static_cast<T*>(p.gate_gradient), *up_gradient = static_cast<T*>(p.up_gradient);
  each_vector<Wide<T>>(begin, end, [&](auto d, int64_t i) HWY_ATTR {
    const auto x = load(d, gate + i);
    const Sigmoid<decltype(d)> y = sigmoid(d, x);
    const auto scaled = hn::Mul(load(d, out_gradient + i), y.value);
    // d SiLU = y (1 + x (1 - y))
    const auto slope = hn::MulAdd(x, y.rest, hn::Set(d, Wide<T>(1)));
    store(d, hn::Mul(hn::Mul(scaled, load(d, up + i)), slope), gate_gradient + i, p.stream);
    store(d, hn::Mul(scaled, x), up_gradient + i, p.stream);
  });
  if (p.stream) hwy::FlushStream();
}

void swiglu_forward_each_type(const SwigluForward& p, int64_t begin, int64_t end) {
  with_type(p.type,
            [&](auto* t) HWY_ATTR { forward_range<std::remove_pointer_t<decltype(t)>>(p, begin, end); });
}
void swiglu_backward_each_type(const SwigluBackward& p, int64_t begin, int64_t end) {
  with_type(p.type,
            [&](auto* t) HWY_ATTR { backward_range<std::remove_pointer_t<decltype(t)>>(p, begin, end); });
}
}  // namespace HWY_NAMESPACE
}  // namespace optrush::fused
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace optrush::fused {
HWY_EXPORT(swiglu_forward_each_type);
HWY_EXPORT(swiglu_backward_each_type);
void cpu::swiglu_forward(const SwigluForward& p, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(swiglu_forward_each_type)(p, begin, end);
}
void cpu::swiglu_backward(const SwigluBackward& p, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(swiglu_backward_each_type)(p, begin, end);
}
}  // namespace optrush::fused
#endif
