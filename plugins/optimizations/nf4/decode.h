#pragma once
#include <cstdint>

#include "kernel_parts/type.h"

/// Arguments of the decoding kernels: plain pointers.
namespace optrush::nf4 {
/// A scale is scales[block], or means[group] + codes[block] * steps[group] if `scales` is null.
struct Encoded {
  const uint8_t* numbers;  ///< two a byte, the first one in the upper half
  const float* scales;
  const int8_t* scale_codes;
  const float *scale_means, *scale_steps;
  int64_t count;  ///< of numbers
};

namespace cpu {
/// Writes the numbers of the blocks [begin, end) to their place in `to`, which has room for all numbers, in
/// fp32, bf16 or fp16.
void decode(const Encoded&, fused::Type, void* to, int64_t begin, int64_t end);
}  // namespace cpu
namespace gpu {
/// All numbers, on the current stream of the current GPU, in one launch.
void decode(const Encoded&, fused::Type, void* to);
}  // namespace gpu
}  // namespace optrush::nf4
