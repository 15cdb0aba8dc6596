#pragma once
#include <cstdint>

#include "kernel_parts/adamw.h"
#include "kernel_parts/type.h"

/// Arguments of the update kernels: plain pointers, so that the file of vector code does not include torch.
namespace optrush::master_adamw {
using fused::Type;
using Factors = fused::AdamWFactors;

/// `count` numbers of one shard. They are in fp32, except for the gradient and for `weight`: the master in
/// bf16, or null if operators read the master itself.
struct Piece {
  const void* gradient;
  float *master, *first, *second;
  void* weight;
  int64_t count;
};

namespace cpu {
/// Numbers [begin, end) of the piece; its gradient is of this type, fp32 or bf16.
void update(const Piece&, Type, const Factors&, int64_t begin, int64_t end);
}  // namespace cpu
}  // namespace optrush::master_adamw
