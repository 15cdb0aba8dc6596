#pragma once
#include <map>
#include <memory>

#include "optrush/optimizer.h"
#include "optrush/spec.h"

namespace optrush::master_adamw {
/// fp32 values of parameters that are stored in bf16, by parameter: local, whole.
using Masters = std::map<const Param*, Tensor>;

/// AdamW (arXiv:1711.05101) over shards in bf16 whose fp32 masters and moments it keeps (arXiv:1710.03740):
/// one pass reads the gradient (bf16 or fp32), updates master and moments, and writes the weight, rounded to
/// nearest. Shards in fp32 are their own masters. A master starts from `masters`, or from the shard if it is
/// missing there. Throws an Error if a shard has another type.
std::unique_ptr<Optimizer> make_optimizer(const TrainSpec&, std::span<Shard>, const Masters& masters);
}  // namespace optrush::master_adamw
