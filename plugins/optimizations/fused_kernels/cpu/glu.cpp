// Gated linear units (arXiv:2002.05202) on a CPU, element by element.
#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/glu.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include "hwy/foreach_target.h"
// The target's own headers come after it.
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernel_parts/lanes-inl.h"
#include "kernel_parts/sigmoid-inl.h"
#include "kernels.h"

HWY_BEFORE_NAMESPACE();
namespace optrush::fused {
namespace HWY_NAMESPACE {
/// argument: of the sigmoid. slope: d argument / d x. x: the point at which the slope of the activation is
/// taken.
template <class D>
struct Argument {
  hn::Vec<D> value, slope, x;
};
template <Gate kGate, class D>
HWY_INLINE Argument<D> argument(D d, hn::Vec<D> x) {
  using W = hn::TFromD<D>;
  if constexpr (kGate == Gate::silu) return {x, hn::Set(d, W(1)), x};
  constexpr auto kFirst = W(1.5957691216057308), kThird = kFirst * W(0.044715);
  // Beyond, the sigmoid is 0 or 1 to any type, and the cube may overflow.
  const auto most = hn::Set(d, W(30)), clamped = hn::Max(hn::Min(x, most), hn::Neg(most));
  const auto bounded = hn::IfThenElse(hn::IsNaN(x), x, clamped);  // Min and Max may drop a NaN
  const auto square = hn::Mul(bounded, bounded), first = hn::Set(d, kFirst);
  return {hn::Mul(bounded, hn::MulAdd(hn::Set(d, kThird), square, first)),
          hn::MulAdd(hn::Set(d, W(3) * kThird), square, first), bounded};
}

template <class T, Gate kGate>
void forward_range(const GluForward& p, int64_t begin, int64_t end) {
  const auto *gate = static_cast<const T*>(p.gate), *up = static_cast<const T*>(p.up);
  auto* out = static_cast<T*>(p.out);
  each_vector<Wide<T>>(begin, end, [&](auto d, int64_t i) HWY_ATTR {
    const auto x = load(d, gate + i);
    store(d, hn::Mul(hn::Mul(x, sigmoid(d, argument<kGate>(d, x).value).value), load(d, up + i)), out + i,
          p.stream);
  });
  if (p.stream) hwy::FlushStream();
}

template <class T, Gate kGate>
void backward_range(const GluBackward& p, int64_t begin, int64_t end) {
  const auto *gate = static_cast<const T*>(p.gate), *up = static_cast<const T*>(p.up);
  const auto* out_gradient = static_cast<const T*>(p.out_gradient);
  auto *gate_gradient = static_cast<T*>(p.gate_gradient), *up_gradient = static_cast<T*>(p.up_gradient);
  int64_t gap = 0;  // between the rows of a gradient, up to the present one
  const auto one = [&](auto d, int64_t i) HWY_ATTR {
    const auto x = load(d, gate + i);
    const Argument<decltype(d)> of = argument<kGate>(d, x);
    const Sigmoid<decltype(d)> y = sigmoid(d, of.value);
    const auto scaled = hn::Mul(load(d, out_gradient + i), y.value);
    // d (x y) = y (1 + x (1 - y) d argument)
    const auto slope = hn::MulAdd(hn::Mul(of.x, of.slope), y.rest, hn::Set(d, Wide<T>(1)));
    store(d, hn::Mul(hn::Mul(scaled, load(d, up + i)), slope), gate_gradient + gap + i, p.stream);
    store(d, hn::Mul(scaled, x), up_gradient + gap + i, p.stream);
  };
  for (int64_t at = begin; at < end;) {
    const int64_t row = at / p.width, row_end = std::min(end, (row + 1) * p.width);
    gap = row * (p.stride - p.width);
    each_vector<Wide<T>>(at, row_end, one);
    at = row_end;
  }
  if (p.stream) hwy::FlushStream();
}

template <class P, class Range>
void each_type_and_gate(const P& p, const Range& range) {
  with_type(p.type, [&](auto* t) HWY_ATTR {
    p.activation == Gate::silu ? range(t, std::integral_constant<Gate, Gate::silu>())
                               : range(t, std::integral_constant<Gate, Gate::gelu_tanh>());
  });
}

void glu_forward_each_type(const GluForward& p, int64_t begin, int64_t end) {
  each_type_and_gate(p, [&](auto* t, auto gate) HWY_ATTR {
    forward_range<std::remove_pointer_t<decltype(t)>, decltype(gate)::value>(p, begin, end);
  });
}
void glu_backward_each_type(const GluBackward& p, int64_t begin, int64_t end) {
  each_type_and_gate(p, [&](auto* t, auto gate) HWY_ATTR {
    backward_range<std::remove_pointer_t<decltype(t)>, decltype(gate)::value>(p, begin, end);
  });
}
}  // namespace HWY_NAMESPACE
}  // namespace optrush::fused
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace optrush::fused {
HWY_EXPORT(glu_forward_each_type);
HWY_EXPORT(glu_backward_each_type);
void cpu::glu_forward(const GluForward& p, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(glu_forward_each_type)(p, begin, end);
}
void cpu::glu_backward(const GluBackward& p, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(glu_backward_each_type)(p, begin, end);
}
}  // namespace optrush::fused
#endif
