#include "code.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace optrush::adamw_8bit {
namespace {
constexpr int kDecades = 7;

/// The magnitudes by rank: 0, the numbers between, and 1.
std::vector<float> magnitudes(bool has_sign) {
  std::vector<float> all = {0};
  for (int decade = 0; decade < kDecades; ++decade) {
    const double scale = std::pow(10.0, decade + 1 - kDecades);
    const int steps = 1 << (has_sign ? decade : decade + 1);
    // The middles of equal parts of [0.1, 1].
    for (int i = 0; i < steps; ++i)
      all.push_back(static_cast<float>(scale * (0.1 + 0.9 * (i + 0.5) / steps)));
  }
  all.push_back(1);
  return all;
}

/// The smallest magnitude of a bucket.
float start_of(int32_t bucket) { return std::bit_cast<float>((bucket + kFirstBucket) << 16); }

/// The largest float whose nearest number is `low`. A midpoint is nearest to both and counts as `low`.
float border_between(float low, float high) {
  const double middle = (double{low} + high) / 2;
  const auto rounded = static_cast<float>(middle);
  return rounded <= middle ? rounded : std::nextafter(rounded, 0.0F);
}

Code make_code(bool has_sign) {
  const auto ranks = magnitudes(has_sign);
  Code code{.has_sign = has_sign};
  code.highest = static_cast<int32_t>(ranks.size()) - 1;
  code.zero = has_sign ? code.highest - 1 : 0;
  for (int32_t rank = 0; rank <= code.highest; ++rank) {
    const auto r = static_cast<size_t>(rank);
    code.values[static_cast<size_t>(code.zero) + r] = ranks[r];
    if (has_sign && rank < code.highest) code.values[static_cast<size_t>(code.zero) - r] = -ranks[r];
  }
  int32_t low = 0;
  for (int32_t bucket = 0; bucket < kBuckets; ++bucket) {
    const auto border = [&] {
      return low < code.highest
                 ? border_between(ranks[static_cast<size_t>(low)], ranks[static_cast<size_t>(low) + 1])
                 : std::numeric_limits<float>::infinity();
    };
    if (border() < start_of(bucket)) ++low;
    code.buckets[static_cast<size_t>(bucket)] = {border(), low};
  }
  return code;
}
}  // namespace

const Code& signed_code() {
  static const Code code = make_code(true);
  return code;
}

const Code& unsigned_code() {
  static const Code code = make_code(false);
  return code;
}

uint8_t encode(const Code& code, float value) {
  const float magnitude = std::abs(value);
  const int32_t at = std::clamp((std::bit_cast<int32_t>(magnitude) >> 16) - kFirstBucket, 0, kBuckets - 1);
  const Bucket& bucket = code.buckets[static_cast<size_t>(at)];
  int32_t rank = bucket.low + (magnitude > bucket.border ? 1 : 0);
  if (!code.has_sign) return static_cast<uint8_t>(magnitude > 0 ? std::max(rank, 1) : rank);
  if (value < 0) rank = -std::min(rank, code.highest - 1);
  return static_cast<uint8_t>(code.zero + rank);
}
}  // namespace optrush::adamw_8bit
