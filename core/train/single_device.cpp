#include "train/single_device.h"

#include <vector>

namespace optrush {
namespace {
class SingleDevice final : public DataParallel {
 public:
  void store(Param& param, Tensors value) override {
    if (param.codec) {
      param.stored = std::move(value);
      return;
    }
    param.leaf = value.at(0).detach().requires_grad_(param.trainable);
    if (!param.trainable) return;
    shards_.push_back({.data = param.leaf.detach(),
                       .grad = {},
                       .decay = param.decay,
                       .segments = {{&param, 0, param.leaf.numel(), 0}},
                       .split_over = {}});
  }
  void finish() override {
    for (Shard& shard : shards_) shard.grad = leaf(shard).grad();
  }
  void zero_gradients() override {
    for (Shard& shard : shards_) {
      shard.grad.reset();
      leaf(shard).mutable_grad().reset();
    }
  }
  std::span<Shard> shards() override { return shards_; }

 private:
  static Tensor& leaf(Shard& shard) { return shard.segments.front().param->leaf; }
  std::vector<Shard> shards_;
};
}  // namespace

std::unique_ptr<DataParallel> make_single_device() { return std::make_unique<SingleDevice>(); }
}  // namespace optrush
