// Numbers rounded to 8 bits.

/// The nearest number of 1 + exponent + mantissa bits, ties to even. x is not beyond the largest number.
template <int mantissa>
__device__ inline unsigned char to_8_bits(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  unsigned short pair;
  if constexpr (mantissa == 3)
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
  else
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
  return static_cast<unsigned char>(pair);
#else
  constexpr int kBias = mantissa == 3 ? 7 : 15, kShift = 23 - mantissa;
  const unsigned int all = static_cast<unsigned int>(__float_as_int(x)), sign = all >> 24 & 0x80u,
                     bits = all & 0x7FFFFFFFu;
  if (bits > 0x7F800000u) return 0x7Fu;
  // Smaller than the smallest normal number: added to this one, the last bit of the sum is the smallest number of the
  // type.
  constexpr unsigned int kNormal = static_cast<unsigned int>(128 - kBias) << 23;
  constexpr unsigned int kAligned = static_cast<unsigned int>(128 - kBias + kShift) << 23;
  if (bits < kNormal) {
    const float sum =
        __fadd_rn(__int_as_float(static_cast<int>(bits)), __int_as_float(static_cast<int>(kAligned)));
    return static_cast<unsigned char>((static_cast<unsigned int>(__float_as_int(sum)) - kAligned) | sign);
  }
  const unsigned int odd = bits >> kShift & 1u;
  const unsigned int moved =
      bits - (static_cast<unsigned int>(127 - kBias) << 23) + ((1u << (kShift - 1)) - 1u) + odd;
  return static_cast<unsigned char>(moved >> kShift | sign);
#endif
}
