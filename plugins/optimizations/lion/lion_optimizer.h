#pragma once
#include <memory>

#include "optrush/optimizer.h"

namespace optrush::lion {
struct Settings {
  double beta1 = 0.9;   ///< weight of the mean in the direction of a step
  double beta2 = 0.99;  ///< decay of the mean
  double weight_decay = 0;
};

/// Lion over shards of any type. It keeps one number a parameter, in the shard's type, and reads the learning
/// rate and `Update::skip` as tensors.
std::unique_ptr<Optimizer> make_optimizer(const Settings&, std::span<Shard>);
}  // namespace optrush::lion
