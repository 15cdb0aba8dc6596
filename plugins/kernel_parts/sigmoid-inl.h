// The sigmoid of vectors. Included once for each instruction set, as lanes-inl.h.
#if defined(OPTRUSH_FUSED_SIGMOID) == defined(HWY_TARGET_TOGGLE)
#ifdef OPTRUSH_FUSED_SIGMOID
#undef OPTRUSH_FUSED_SIGMOID
#else
#define OPTRUSH_FUSED_SIGMOID
#endif
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernel_parts/exp-inl.h"

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
}  // namespace HWY_NAMESPACE
}  // namespace optrush::fused
HWY_AFTER_NAMESPACE();
#endif
