#pragma once
#include <array>
#include <cstdint>

/// The values of the 8-bit codes of a moment. The file of vector code includes this header, so it does not
/// include torch.
namespace optrush::adamw_8bit {
/// Consecutive numbers that share a scale, which is their largest magnitude (arXiv:2110.02861, section 2.1).
inline constexpr int64_t kBlock = 256;

/// Buckets of magnitudes in [2^-23, 1] by the upper 16 bits of fp32. A bucket has at most one border.
inline constexpr int32_t kFirstBucket = (127 - 23) << 7;
inline constexpr int32_t kBuckets = (127 << 7) + 1 - kFirstBucket;

/// Magnitudes up to `border` have the rank `low`, those above it the next rank.
struct Bucket {
  float border;
  int32_t low;
};

/// The 256 values from -1 (or 0) to 1 of dynamic quantization (arXiv:1511.04561; bits as in
/// arXiv:2110.02861): seven decades, each with twice as many steps as the one below it, 0, and 1.
struct Code {
  bool has_sign = false;
  std::array<float, 256> values{};  ///< by code, ascending
  int32_t zero = 0;                 ///< the code of 0: a number of rank r is zero + r, its negative zero - r
  int32_t highest = 0;              ///< rank of 1
  std::array<Bucket, kBuckets> buckets{};
};
/// For a first moment: 127 negative numbers, 0, and 128 positive numbers up to 1. -1 has no code.
const Code& signed_code();
/// For a second moment: 0 and 255 positive numbers.
const Code& unsigned_code();

/// The code of the nearest number. The magnitude of `value` is <= 1, or NaN. In a code without a sign, a
/// nonzero number stays above 0.
uint8_t encode(const Code&, float value);
}  // namespace optrush::adamw_8bit
