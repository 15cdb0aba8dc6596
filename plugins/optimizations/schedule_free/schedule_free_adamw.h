#pragma once
#include <memory>

#include "optrush/optimizer.h"
#include "optrush/spec.h"

namespace optrush::schedule_free {
/// Schedule-Free AdamW over shards of any type, with the decays, epsilon and weight decay of the spec. The
/// average weighs a step by the power `weight_power` of the largest learning rate so far.
std::unique_ptr<Optimizer> make_optimizer(const TrainSpec&, double weight_power, std::span<Shard>);
}  // namespace optrush::schedule_free
