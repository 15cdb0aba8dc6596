#pragma once
#include <array>
#include <cstdint>

/// The values of the 8-bit codes of a moment. No torch here: the file of vector code reads it, too.
namespace optrush::adamw_8bit {
/// Consecutive numbers of a block that share a scale, the largest magnitude among them (arXiv:2110.02861,
/// section 2.1).
inline constexpr int64_t kBlock = 256;

/// Magnitudes in [0, 1] by the upper 16 bits of their fp32 pattern, from 2^-23 on. No bucket has more than
/// one border.
inline constexpr int32_t kFirstBucket = (127 - 23) << 7;
inline constexpr int32_t kBuckets = (127 << 7) + 1 - kFirstBucket;

/// Magnitudes of this bucket have the rank `low` up to `border`, and the next one above it.
struct Bucket {
  float border;
  int32_t low;
};

/// The 256 numbers from -1 (or 0) to 1 that there are, as dynamic quantization has them (arXiv:1511.04561;
/// bits as in arXiv:2110.02861): seven decades, each with twice as many steps as the one below it, 0, and 1.
struct Code {
  bool has_sign = false;
  std::array<float, 256> values{};  ///< by code, ascending
  int32_t zero = 0;                 ///< the code of 0: a number of rank r is zero + r, its negative zero - r
  int32_t highest = 0;              ///< rank of 1
  std::array<Bucket, kBuckets> buckets{};
};
/// Of a first moment: 127 negative numbers, 0, and 128 positive ones, among them 1; -1 itself is missing.
const Code& signed_code();
/// Of a second moment: 0 and 255 positive numbers.
const Code& unsigned_code();

/// The code of the nearest number. `magnitude` is <= 1, or NaN. In a code without a sign, a nonzero number
/// stays above 0.
uint8_t encode(const Code&, float value);
}  // namespace optrush::adamw_8bit
