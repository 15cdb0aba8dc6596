#pragma once
#include <cstdint>

#include "kernel_parts/adamw.h"
#include "kernel_parts/type.h"

/// Arguments of the update kernels: plain pointers, so that the file of vector code does not include torch.
namespace optrush::adamw_8bit {
using fused::Type;

/// `count` numbers of one shard. Moments are codes (code.h), with a scale for each block of them.
struct Piece {
  const void* gradient;
  void* data;
  uint8_t *first, *second;
  float *first_scales, *second_scales;
  int64_t count;
};

/// Of a gradient and of the data that it updates: fp32 or bf16.
struct Types {
  Type gradient = Type::fp32, data = Type::fp32;
  bool operator==(const Types&) const = default;
};

/// Spreads the bits of its argument over all of its result (the end of MurmurHash3).
constexpr uint32_t mixed(uint32_t bits) {
  bits = (bits ^ (bits >> 16)) * 0x85EBCA6BU;
  bits = (bits ^ (bits >> 13)) * 0xC2B2AE35U;
  return bits ^ (bits >> 16);
}
/// What the chances of a shard's numbers follow from at one step, and of one block of them: data in bf16 is
/// rounded up with the chance of its distance from the lower neighbour. With mixed(chances_of_block + i) for
/// the block's number i, they depend on nothing else, so every replica rounds alike.
constexpr uint32_t chances_of(uint64_t seed, uint32_t shard, uint32_t step) {
  return mixed(mixed(static_cast<uint32_t>(seed) + 0x9E3779B9U * shard) + 0x85EBCA77U * step);
}
constexpr uint32_t chances_of_block(uint32_t chances, int64_t block) {
  return mixed(chances + 0x9E3779B9U * static_cast<uint32_t>(block));
}

struct Factors : fused::AdamWFactors {
  uint32_t chances;
};

namespace cpu {
/// Blocks [begin, end) of the piece.
void update(const Piece&, Types, const Factors&, int64_t begin, int64_t end);
}  // namespace cpu
}  // namespace optrush::adamw_8bit
