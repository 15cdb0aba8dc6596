// Decoding on a CPU: a block has 16 numbers, which are scaled and rounded once and then looked up.
#include <algorithm>
#include <array>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "decode.h"
#include "numbers.h"

namespace optrush::nf4 {
namespace {
float scale_of(const Encoded& from, int64_t block) {
  if (from.scales != nullptr) return from.scales[block];
  const int64_t group = block / kScales;
  return from.scale_means[group] + static_cast<float>(from.scale_codes[block]) * from.scale_steps[group];
}

template <class T>
void decode_blocks(const Encoded& from, T* to, int64_t begin, int64_t end) {
  for (int64_t block = begin; block < end; ++block) {
    const float scale = scale_of(from, block);
    std::array<T, kNumbers.size()> scaled;
    for (size_t i = 0; i < scaled.size(); ++i) scaled[i] = static_cast<T>(kNumbers[i] * scale);
    const int64_t first = block * kBlock, count = std::min(kBlock, from.count - first);
    const uint8_t* bytes = from.numbers + first / 2;
    T* out = to + first;
    for (int64_t i = 0; i < count / 2; ++i) {
      out[2 * i] = scaled[bytes[i] >> 4];
      out[2 * i + 1] = scaled[bytes[i] & 15];
    }
    if (count % 2 != 0) out[count - 1] = scaled[bytes[count / 2] >> 4];
  }
}
}  // namespace

void cpu::decode(const Encoded& from, fused::Type type, void* to, int64_t begin, int64_t end) {
  switch (type) {
    case fused::Type::fp32:
      return decode_blocks(from, static_cast<float*>(to), begin, end);
    case fused::Type::bf16:
      return decode_blocks(from, static_cast<c10::BFloat16*>(to), begin, end);
    case fused::Type::fp16:
      return decode_blocks(from, static_cast<c10::Half*>(to), begin, end);
    case fused::Type::fp64:
      return decode_blocks(from, static_cast<double*>(to), begin, end);
  }
}
}  // namespace optrush::nf4
