#pragma once
#include <memory>
#include <span>

#include "optrush/advanced/data_parallel.h"
#include "optrush/optimizer.h"
#include "optrush/run.h"
#include "optrush/spec.h"

namespace optrush {
/// The plain AdamW (arXiv:1711.05101): one tensor at a time, one ATen call for each term of the formula.
std::unique_ptr<Optimizer> make_adamw(const TrainSpec&, std::span<Shard>);

/// The plain DataParallel: every parameter is stored whole, or as the other mesh dimensions cut it.
std::unique_ptr<DataParallel> make_single_device(Run&);
}  // namespace optrush
