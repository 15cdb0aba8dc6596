#pragma once
#include <functional>
#include <memory>

#include "optrush/optimizer.h"
#include "optrush/run.h"

namespace optrush::stochastic_rounding {
using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(Run&, std::span<Shard>)>;

/// An optimizer that updates bf16 shards in fp32 and rounds the result by chance. `inner` is made for copies
/// in fp32 which have memory during an update only: of one shard at a time, where the inner optimizer takes
/// shards one by one. Shards of other types are the inner optimizer's own.
std::unique_ptr<Optimizer> make_optimizer(Run&, std::span<Shard>, const MakeOptimizer& inner);
}  // namespace optrush::stochastic_rounding
