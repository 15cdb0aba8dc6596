#pragma once
#include <span>
#include <string>
#include <vector>

#include "optrush/shard.h"

namespace optrush {
/// One update of the parameters.
struct Update {
  double lr = 0;
  /// The same as a 0-dim tensor on the shards' device, for recorded steps (CUDA graphs).
  Tensor lr_tensor;
  Tensor skip;  ///< 0-dim float on the same device, 1 if a gradient overflowed; undefined: never skip.
};

/// A tensor of an optimizer's state for one shard.
struct OptimizerState {
  std::string name;
  Tensor value;
  /// Number of shard elements per entry: 1 for a moment, the block size for the scales of an 8-bit optimizer
  /// (as in Param::block). 0: a tensor of any shape that belongs to the whole parameter, such as a step count
  /// or statistics of rows; it is the same on every rank that has a part of the parameter.
  int64_t block = 1;
  /// The parameter itself with more bits than the shard (master weights); saved as its value.
  bool is_parameter = false;
};

/// Created after the shards exist. step() may get a part of them, so it counts steps itself.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual void step(std::span<Shard>, const Update&) = 0;
  /// Empty if step() may be called with some of the shards as soon as their gradients are final. Otherwise
  /// the reason, as the end of an Error: an optimizer of whole matrices needs all parts of a matrix at once.
  virtual std::string why_not_in_parts() const { return {}; }
  /// All state of a shard. Saving reads these tensors, and loading writes them.
  virtual std::vector<OptimizerState> state(const Shard&) = 0;
  /// Exchanges the parameters in training for those to evaluate (true) and back (false), for optimizers that
  /// average. The host calls it around validation, samples, saving and loading; the steps lie outside.
  virtual void evaluates(std::span<Shard>, bool) {}
};
}  // namespace optrush
