#pragma once
#include <functional>
#include <span>

#include "optrush/param.h"

namespace optrush {
/// Owner of where parameters and gradients live between steps and in them: one device, replicated, sharded.
/// Gradients are sums over Mesh::data() and Param::sum_over; the loss was divided once, by
/// Batch::token_count. A sharded one also wraps Recipe::unit at Phase::shard, to gather before a unit and
/// free after it.
class DataParallel {
 public:
  virtual ~DataParallel() = default;
  /// Takes a parameter's local value in its stored form (one tensor without a codec) and sets leaf or stored.
  /// Called one parameter at a time, so the peak is one full parameter.
  virtual void store(Param&, Tensors value) = 0;
  virtual void before_forward() {}
  virtual void before_backward(const Tensor& /*out*/, bool /*last_microbatch*/) {}
  /// After the last backward of a step: every Shard::grad is final.
  virtual void finish() {}
  virtual void zero_gradients() = 0;
  virtual std::span<Shard> shards() = 0;
  /// For an optimizer in the backward: called when a shard's gradient is final.
  std::function<void(Shard&)> on_ready;
};
}  // namespace optrush
