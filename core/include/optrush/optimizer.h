#pragma once
#include <span>
#include <string>
#include <vector>

#include "optrush/shard.h"

namespace optrush {
/// One update of the parameters.
struct Update {
  double lr = 0;
  /// The same, 0-dim on the shards' device: for optimizers that may not read the host (CUDA graphs).
  Tensor lr_tensor;
  Tensor skip;  ///< 0-dim float, 1 where a gradient overflowed; undefined: never skip. There as well.
};

/// A view of what an optimizer keeps for one shard.
struct OptimizerState {
  std::string name;
  Tensor value;
  /// Elements of the shard that one entry stands for: 1 for a moment, the block of an 8-bit optimizer for its
  /// scales (Param::block then says so, too), 0 for one entry of the whole shard, as a count of steps.
  int64_t block = 1;
  /// The parameter itself with more bits than the shard has (master weights): saved as its value.
  bool is_parameter = false;
};

/// Made after the shards exist; it may be called with a part of them (optimizer in backward), so it counts
/// steps itself.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual void step(std::span<Shard>, const Update&) = 0;
  /// Whether step() may be given some of the shards, as soon as their gradients are final. Otherwise why not,
  /// as the end of an Error: one that updates a matrix as a whole needs all of its pieces at once.
  virtual std::string why_not_in_parts() const { return {}; }
  /// All that it keeps for a shard: their bytes are the predicted memory; saving reads and loading writes
  /// them.
  virtual std::vector<OptimizerState> state(const Shard&) = 0;
};
}  // namespace optrush
