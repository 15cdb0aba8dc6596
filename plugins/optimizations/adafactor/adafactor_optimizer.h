#pragma once
#include <memory>

#include "optrush/optimizer.h"
#include "sums.h"

namespace optrush::adafactor {
struct Settings {
  double decay = -0.8;    ///< exponent of the step in 1 - beta2
  double eps1 = 0x1p-23;  ///< least root of a second moment: the epsilon of fp32
  double eps2 = 1e-3;     ///< least root mean square of a parameter, in the length of a step
  double threshold = 1;   ///< d: largest root mean square of an update
  double weight_decay = 0;
};

/// Adafactor as in torch.optim.Adafactor: the second moments of a matrix (R, C) are kept as R means over rows
/// and C means over columns. Parameters of other shapes have one second moment per element. Steps are
/// relative to the root mean square of the parameter. Statistics are in fp32 at least. Ranks that have parts
/// of a parameter sum their parts of the statistics, twice a step for all parameters together.
std::unique_ptr<Optimizer> make_optimizer(const Settings&, std::span<Shard>, std::vector<SplitOver>);
/// Bytes that a rank of the group sends in a step.
double bytes_of_sums(const SplitOver&);
}  // namespace optrush::adafactor
