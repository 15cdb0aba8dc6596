// The exponential of vectors of fp32. Included once for each instruction set, as lanes-inl.h.
#if defined(OPTRUSH_FUSED_EXP) == defined(HWY_TARGET_TOGGLE)
#ifdef OPTRUSH_FUSED_EXP
#undef OPTRUSH_FUSED_EXP
#else
#define OPTRUSH_FUSED_EXP
#endif
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace optrush::fused {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Whether one instruction multiplies by powers of two. It passes NaNs on.
template <class D>
inline constexpr bool kScales = (HWY_TARGET == HWY_AVX3) && (hn::MaxLanes(D()) == 16);

/// e^x in fp32 for |x| <= 80, where no result is denormal, with an error of one or two ulps. Operators spend
/// most of their time here. Highway's version supports every x and has twice as many instructions. The result
/// is 2^n e^r with |r| <= ln(2) / 2. The polynomial is the best one of its degree, with an error of 3e-9.
template <class D>
HWY_INLINE hn::Vec<D> exp_of_moderate(D d, hn::Vec<D> x) {
  // Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits.
  const auto magic = hn::Set(d, 12582912.0F);
  const auto shifted = hn::MulAdd(x, hn::Set(d, 1.44269504F), magic);
  const auto r = hn::NegMulAdd(hn::Sub(shifted, magic), hn::Set(d, 0.69314718F), x);
  // Written out, because GCC keeps a loop over so few coefficients at -O2.
  const auto next = [d, r](auto sum, float coefficient)
                        HWY_ATTR { return hn::MulAdd(sum, r, hn::Set(d, coefficient)); };
  auto p = next(hn::Set(d, 1.3814467e-3F), 8.3687808e-3F);
  p = next(next(p, 4.1668393e-2F), 1.6666520e-1F);
  p = next(next(next(p, 0.49999994F), 1.0F), 1.0F);
#if HWY_TARGET == HWY_AVX3
  // With a mask of all lanes, because GCC 12 warns about the form without one.
  if constexpr (kScales<D>) return {_mm512_maskz_scalef_ps(0xFFFF, p.raw, hn::Sub(shifted, magic).raw)};
#endif
  const hn::RebindToSigned<D> integers;
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(integers, shifted));
  return hn::BitCast(d, hn::Add(hn::BitCast(integers, p), exponent));
}

/// e^x for x <= 0, a NaN for a NaN. Below e^-80, which is negligible in a sum that contains 1, it is 0 or
/// e^-87.
template <class D>
HWY_INLINE hn::Vec<D> exp_of_nonpositive(D d, hn::Vec<D> x) {
  // Of a number and a NaN, this maximum is the second argument.
  if constexpr (kScales<D>) return exp_of_moderate(d, hn::Max(hn::Set(d, -87.0F), x));
  const auto least = hn::Set(d, -80.0F);
  const auto e = hn::IfThenZeroElse(hn::Lt(x, least), exp_of_moderate(d, hn::Max(x, least)));
  return hn::IfThenElse(hn::IsNaN(x), x, e);
}
}  // namespace HWY_NAMESPACE
}  // namespace optrush::fused
HWY_AFTER_NAMESPACE();
#endif
