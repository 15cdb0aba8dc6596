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
/// shard of matrices is in fp32 or bf16, one of vectors in fp32; an Error else. The update computes in fp32.
/// Data in bf16 is rounded by chance: up with the probability of its distance from the lower neighbour, so
/// that the mean of what is written is the exact value. The random bits are a hash of the seed, the shard,
/// the step and the place.
std::unique_ptr<Optimizer> make_optimizer(const TrainSpec&, std::span<Shard>);
}  // namespace optrush::adamw_8bit
