#pragma once
#include <cstdint>

#include "kernel_parts/adamw.h"
#include "kernel_parts/type.h"

/// Arguments of the update kernels: plain pointers, because the file of vector code does not include torch.
namespace optrush::adamw_8bit {
using fused::Type;

/// `count` numbers of one shard. Moments are codes (code.h) with one scale per block.
struct Piece {
  const void* gradient;
  void* data;
  uint8_t *first, *second;
  float *first_scales, *second_scales;
  int64_t count;
};

/// Types of a gradient and of the data that it updates: fp32 or bf16.
struct Types {
  Type gradient = Type::fp32, data = Type::fp32;
  bool operator==(const Types&) const = default;
};

/// Each bit of the argument affects all bits of the result (the finalizer of MurmurHash3).
constexpr uint32_t mixed(uint32_t bits) {
  bits = (bits ^ (bits >> 16)) * 0x85EBCA6BU;
  bits = (bits ^ (bits >> 13)) * 0xC2B2AE35U;
  return bits ^ (bits >> 16);
}
/// The seeds of stochastic rounding for a shard at one step, and for one of its blocks. The probability of
/// rounding up to bf16 is the distance from the lower neighbour. Number i of a block draws
/// mixed(block_seed + i), so every replica rounds alike.
constexpr uint32_t rounding_seed(uint64_t seed, uint32_t shard, uint32_t step) {
  return mixed(mixed(static_cast<uint32_t>(seed) + 0x9E3779B9U * shard) + 0x85EBCA77U * step);
}
constexpr uint32_t block_seed(uint32_t seed, int64_t block) {
  return mixed(seed + 0x9E3779B9U * static_cast<uint32_t>(block));
}

struct Factors : fused::AdamWFactors {
  uint32_t rounding_seed;
};

namespace cpu {
/// Updates the blocks [begin, end) of the piece.
void update(const Piece&, Types, const Factors&, int64_t begin, int64_t end);
}  // namespace cpu
}  // namespace optrush::adamw_8bit
