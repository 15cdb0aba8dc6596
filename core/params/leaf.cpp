#include "optrush/data_parallel.h"

#include <torch/csrc/autograd/variable.h>

#include <memory>

namespace optrush {
namespace {
class Listener final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit Listener(std::function<void(const Tensor&)> added) : added_(std::move(added)) {}
  void operator()(const Tensor& leaf) override { added_(leaf); }

 private:
  std::function<void(const Tensor&)> added_;
};
}  // namespace

void after_accumulation(const Tensor& leaf, std::function<void(const Tensor& leaf)> added) {
  torch::autograd::impl::set_post_acc_grad_hooks(leaf, std::make_unique<Listener>(std::move(added)));
}

void keep_whole(Param& param, Tensors values, std::vector<Shard>& shards) {
  if (param.codec) {
    param.stored = std::move(values);
    return;
  }
  param.leaf = values.at(0).detach().requires_grad_(param.trainable);
  if (!param.trainable) return;
  shards.push_back({.data = param.leaf.detach(),
                    .grad = {},
                    .decay = param.decay,
                    .segments = {{&param, param.layout, 0}},
                    .sharded_over = param.sharded_over});
}
}  // namespace optrush
