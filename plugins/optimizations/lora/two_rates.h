#pragma once
#include <functional>
#include <memory>
#include <span>

#include "optrush/optimizer.h"

namespace optrush::lora {
/// LoRA+ (arXiv:2402.12354): the matrices B, and vectors, are updated with `ratio` times the learning rate of
/// the other shards. `make` makes the optimizer of either group.
std::unique_ptr<Optimizer> two_rates(double ratio, std::span<Shard> shards,
                                     const std::function<std::unique_ptr<Optimizer>(std::span<Shard>)>& make);

/// Whether the shard has the higher rate.
bool is_fast(const Shard&);
}  // namespace optrush::lora
