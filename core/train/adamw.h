#pragma once
#include <memory>

#include "optrush/optimizer.h"
#include "optrush/spec.h"

namespace optrush {
/// The plain AdamW (arXiv:1711.05101): one tensor at a time, one ATen call for each term of the formula.
std::unique_ptr<Optimizer> make_adamw(const TrainSpec&, std::span<Shard>);
}  // namespace optrush
