#pragma once
#include <functional>
#include <span>
#include <vector>

#include "optrush/shard.h"

namespace optrush {
/// Decides where parameters and gradients are stored, between and during steps: on one device, replicated or
/// sharded. Gradients are sums over Param::summed_over() and Param::partial_over; the loss is divided once,
/// by Batch::token_count. A sharded implementation also wraps Recipe::unit at Phase::shard, to gather
/// parameters before a unit and free them after it.
///
/// It is created when parameters have names and shapes but no values. It sets the layout of each on this rank
/// (Param::layout, Param::sharded_over). A step calls before_forward and before_backward for each chunk and
/// micro-batch, finish once, and zero_gradients once.
class DataParallel {
 public:
  virtual ~DataParallel() = default;
  /// Stores the elements of param.layout: one tensor in layout.local_shape(), or the encoded tensors of a
  /// codec. Sets leaf or stored. Called for one parameter at a time: the peak is one full parameter.
  virtual void store(Param& param, Tensors values) = 0;
  virtual void before_forward() {}
  /// `last`: no backward of this chunk follows in this step.
  virtual void before_backward(const Tensor& /*out*/, bool /*last*/) {}
  /// After the last backward of a step: every Shard::grad is final.
  virtual void finish() {}
  virtual void zero_gradients() = 0;
  virtual std::span<Shard> shards() = 0;

  /// Calls `listener` when a shard's gradient is final: in the backward if possible, otherwise in finish().
  void on_ready(std::function<void(Shard&)> listener) { listeners_.push_back(std::move(listener)); }

 protected:
  void ready(Shard& shard) const {
    for (const auto& listener : listeners_) listener(shard);
  }
  bool heard() const { return !listeners_.empty(); }

 private:
  std::vector<std::function<void(Shard&)>> listeners_;
};

/// Calls `added` each time autograd has accumulated into the gradient of a leaf. `added` may remove the
/// gradient. A leaf has one listener: the DataParallel that owns the leaf registers it.
void after_accumulation(const Tensor& leaf, std::function<void(const Tensor& leaf)> added);

/// For a DataParallel that stores a parameter whole: its values become the leaf, or the encoded tensors of
/// its codec. A trainable parameter becomes an additional shard.
void keep_whole(Param& param, Tensors values, std::vector<Shard>& shards);
}  // namespace optrush
