#pragma once
#include <span>
#include <string>

#include "optrush/gpu_kernel.h"
#include "optrush/tensor.h"
#include "pieces.h"

/// The update of many shards on the current stream of the current GPU, in two launches for each 48 of them.
namespace optrush::adamw_8bit::gpu {
struct Piece {
  adamw_8bit::Piece numbers;
  int32_t shard = 0;  ///< where its step count and factors are
  bool decays = false;
};
/// On the device.
struct State {
  const float* steps;  ///< one a shard: how many count, this one among them
  float* factors;      ///< three a shard: scratch
  const float* lr;     ///< one number
  const float* skip;   ///< one number, not 0 where the step does not count; null: never
  const void* tables;  ///< tables_on()
};
struct Rates {
  double beta1, beta2, eps, weight_decay;
  uint64_t seed;  ///< of the chances by which data in bf16 is rounded
};

/// Both codes as the kernel reads them.
Tensor tables_on(at::Device);
/// Pieces whose numbers are of these types.
void update(std::span<const Piece>, Types, const State&, const Rates&);
/// How many launches that takes.
int64_t launches_for(int64_t pieces);

/// For tests that compile without a GPU.
const GpuProgram& program();
std::string update_name(Types, bool packed);
}  // namespace optrush::adamw_8bit::gpu
