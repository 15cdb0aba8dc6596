#pragma once
#include <span>
#include <string>

#include "optrush/gpu_kernel.h"
#include "pieces.h"

/// The update of many shards on the current stream of the current GPU, in a launch or two for each 64 of
/// them.
namespace optrush::master_adamw::gpu {
struct Piece {
  master_adamw::Piece numbers;
  int32_t shard = 0;  ///< where its step count and factors are
  bool decays = false;
};
/// On the device.
struct State {
  int32_t* steps;     ///< one a shard: counted here
  float* factors;     ///< three a shard: scratch
  const float* lr;    ///< one number
  const float* skip;  ///< one number, not 0 where the step does not count; null: never
};
struct Rates {
  double beta1, beta2, eps, weight_decay;
};

/// Pieces whose gradients are of one type, and that all have a weight or all have none.
void update(std::span<const Piece>, GradientType, const State&, const Rates&);
/// How many launches that takes.
int64_t launches_for(int64_t pieces);

/// For tests that compile without a GPU.
const GpuProgram& program();
std::string update_name(GradientType, bool writes_weight, bool packed);
}  // namespace optrush::master_adamw::gpu
