#pragma once
#include <span>
#include <string>

#include "kernel_parts/adamw_gpu.h"
#include "pieces.h"

/// The update of many shards, in a launch or two for each 64 of them.
namespace optrush::master_adamw::gpu {
using Piece = fused::gpu::ShardPiece<master_adamw::Piece>;
using State = fused::gpu::AdamWState<int32_t>;  ///< steps are counted here
/// Of State::factors; the last one is the largest absolute value of the shard's weight.
constexpr int64_t kNumbersOfShard = 4;

/// Pieces whose gradients have the same type. Either all of them have a weight, or none has.
void update(std::span<const Piece>, Type gradient, const State&, const fused::AdamWRates&);
/// The number of launches that this takes.
int64_t launches_for(int64_t pieces);

/// For tests that compile without a GPU.
const GpuProgram& program();
std::string update_name(Type gradient, bool writes_weight, bool packed);
}  // namespace optrush::master_adamw::gpu
