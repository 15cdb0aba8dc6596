#pragma once
#include <functional>
#include <memory>

#include "optrush/optimizer.h"
#include "optrush/run.h"

namespace optrush::stochastic_rounding {
using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(Run&, std::span<Shard>)>;

/// An optimizer that updates bf16 shards in fp32 and rounds the result stochastically. `inner` is made for
/// fp32 copies that have memory only during an update: for one shard at a time if the inner optimizer takes
/// shards one by one. The inner optimizer updates shards of other types directly.
std::unique_ptr<Optimizer> make_optimizer(Run&, std::span<Shard>, const MakeOptimizer& inner);
}  // namespace optrush::stochastic_rounding
