#pragma once
#include <span>
#include <string>

#include "kernel_parts/adamw_gpu.h"
#include "optrush/tensor.h"
#include "pieces.h"

/// The update of many shards, in two launches for each 48 of them.
namespace optrush::adamw_8bit::gpu {
using Piece = fused::gpu::ShardPiece<adamw_8bit::Piece>;
using State = fused::gpu::AdamWState<const float>;  ///< the count of steps includes this one

/// Both codes as the kernel reads them.
Tensor tables_on(at::Device);
/// The types of the numbers of the pieces. `tables`: tables_on() of their device. `seed`: of the stochastic
/// rounding of data in bf16.
void update(std::span<const Piece>, Types, const State&, const fused::AdamWRates&, const void* tables,
            uint64_t seed);
/// The number of launches that this takes.
int64_t launches_for(int64_t pieces);

/// For tests that compile without a GPU.
const GpuProgram& program();
std::string update_name(Types, bool packed);
}  // namespace optrush::adamw_8bit::gpu
