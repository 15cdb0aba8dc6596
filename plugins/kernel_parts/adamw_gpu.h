#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "kernel_parts/adamw.h"
#include "optrush/gpu_kernel.h"

/// Launches of the kernels that include adamw.cuh, on the current stream of the current GPU.
namespace optrush::fused::gpu {
/// `Numbers`: addresses, followed by the count of numbers.
template <class Numbers>
struct ShardPiece {
  Numbers numbers;
  int32_t shard = 0;  ///< index of its step count and factors
  bool decays = false;
};

/// Memory on the device. `Step` is const if the steps are counted before.
template <class Step>
struct AdamWState {
  Step* steps;        ///< one a shard
  float* factors;     ///< scratch: three a shard, and what the kernels add to them
  const float* lr;    ///< one number
  const float* skip;  ///< one number, not 0 if the step is skipped; null: never skipped
};

/// Has the same layout as in the kernels.
template <class Numbers, int64_t size>
struct Pieces {
  struct {
    Numbers numbers;
    int32_t shard, first_block;
  } pieces[size];
  int32_t count;
};

/// For each `size` pieces, launches the kernel `prepare`, which computes the factors that all numbers of a
/// shard share, and calls `update(pieces, blocks, some)`. A block has `per_block` numbers of one piece.
template <int64_t size, class Numbers, class Step>
void launch_by_pieces(const GpuProgram& program, std::span<const ShardPiece<Numbers>> all,
                      const AdamWState<Step>& state, const AdamWRates& rates, int64_t per_block,
                      auto&& update) {
  static_assert(size <= 64 && sizeof(Pieces<Numbers, size>) <= 3840, "the arguments of a kernel fit 4 KB");
  for (size_t begin = 0; begin < all.size(); begin += size) {
    const auto some = all.subspan(begin, std::min<size_t>(size, all.size() - begin));
    Pieces<Numbers, size> pieces{};
    uint64_t decayed = 0;
    int64_t blocks = 0;
    for (const auto& [numbers, shard, decays] : some) {
      pieces.pieces[pieces.count] = {numbers, shard, static_cast<int32_t>(blocks)};
      if (decays) decayed |= uint64_t{1} << pieces.count;
      blocks += (numbers.count + per_block - 1) / per_block;
      ++pieces.count;
    }
    program.kernel("prepare").launch({.blocks = {1, 1, 1}, .threads = {64, 1, 1}}, pieces, state.steps,
                                     state.factors, state.lr, state.skip, rates.beta1, rates.beta2,
                                     rates.weight_decay, decayed);
    if (blocks > 0) update(pieces, blocks, some);
  }
}

/// The number of launches that this takes.
template <int64_t size>
int64_t launches_by_pieces(int64_t pieces) {
  return 2 * ((pieces + size - 1) / size);
}

inline bool starts_at(const void* address, uintptr_t bytes) {
  return reinterpret_cast<uintptr_t>(address) % bytes == 0;
}
}  // namespace optrush::fused::gpu
