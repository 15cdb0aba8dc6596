#pragma once
#include <functional>
#include <span>
#include <vector>

#include "optrush/shard.h"

namespace optrush {
/// Owner of where parameters and gradients live between steps and in them: one device, replicated, sharded.
/// Gradients are sums over Mesh::data() and Param::partial_over; the loss was divided once, by
/// Batch::token_count. A sharded one also wraps Recipe::unit at Phase::shard, to gather before a unit and
/// free after it.
///
/// It is made when parameters are known by name and shape, without values, and gives each the layout of what
/// this rank keeps (Param::layout, Param::sharded_over). Calls of a step: before_forward and before_backward
/// for each chunk and micro-batch, finish once, zero_gradients once.
class DataParallel {
 public:
  virtual ~DataParallel() = default;
  /// Takes the elements of param.layout: one tensor in layout.local_shape(), or with a codec its stored ones.
  /// Sets leaf or stored. Called one parameter at a time, so the peak is one full parameter.
  virtual void store(Param& param, Tensors values) = 0;
  virtual void before_forward() {}
  /// `last`: no backward of this chunk follows in this step.
  virtual void before_backward(const Tensor& /*out*/, bool /*last*/) {}
  /// After the last backward of a step: every Shard::grad is final.
  virtual void finish() {}
  virtual void zero_gradients() = 0;
  virtual std::span<Shard> shards() = 0;

  /// Calls `listener` when a shard's gradient is final, once a step for each shard that has one: in the
  /// backward where that is known then, else in finish().
  void on_ready(std::function<void(Shard&)> listener) { listeners_.push_back(std::move(listener)); }

 protected:
  void ready(Shard& shard) const {
    for (const auto& listener : listeners_) listener(shard);
  }
  bool heard() const { return !listeners_.empty(); }

 private:
  std::vector<std::function<void(Shard&)>> listeners_;
};

/// Calls `added` each time autograd has added to the gradient of a leaf, which `added` may take away. One
/// listener a leaf; it belongs to the DataParallel that owns the leaf.
void after_accumulation(const Tensor& leaf, std::function<void(const Tensor& leaf)> added);

/// For a DataParallel that keeps a parameter whole: its values become the leaf, or the stored tensors where
/// there is a codec, and what is trained becomes one shard more.
void keep_whole(Param& param, Tensors values, std::vector<Shard>& shards);
}  // namespace optrush
