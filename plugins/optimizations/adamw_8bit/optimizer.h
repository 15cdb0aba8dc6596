#pragma once
#include <memory>
#include <span>

#include "optrush/optimizer.h"
#include "optrush/spec.h"

namespace optrush::adamw_8bit {
/// Whether a parameter's moments are kept in 8 bits: matrices. Norm weights and other vectors keep fp32
/// moments.
bool is_narrow(const Param&);

/// AdamW (arXiv:1711.05101) over shards whose moments are codes of 8 bits in blocks (arXiv:2110.02861). A
/// shard of matrices must be in fp32 or bf16, and a shard of vectors in fp32; otherwise it throws an Error.
/// The update computes in fp32. Data in bf16 is rounded stochastically: up with the probability of its
/// distance from the lower neighbour. So the mean of the written values is the exact value. The random bits
/// are a hash of the seed, the shard, the step and the place.
std::unique_ptr<Optimizer> make_optimizer(const TrainSpec&, std::span<Shard>);
}  // namespace optrush::adamw_8bit
