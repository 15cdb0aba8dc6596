#pragma once
#include <memory>
#include <span>

#include "optrush/optimizer.h"
#include "optrush/spec.h"

namespace optrush::adamw_8bit {
/// Whether a parameter's moments are kept in 8 bits: matrices. Norm weights and other vectors keep fp32
/// moments.
bool is_narrow(const Param&);

/// AdamW (arXiv:1711.05101) over shards in fp32 whose moments are codes of 8 bits in blocks
/// (arXiv:2110.02861). An Error where a shard is in another type.
std::unique_ptr<Optimizer> make_optimizer(const TrainSpec&, std::span<Shard>);
}  // namespace optrush::adamw_8bit
