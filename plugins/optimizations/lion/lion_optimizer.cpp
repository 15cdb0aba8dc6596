#include "lion_optimizer.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <unordered_map>

namespace optrush::lion {
namespace {
class Lion final : public Optimizer {
 public:
  Lion(const Settings& settings, std::span<Shard> shards) : settings_(settings) {
    for (const Shard& shard : shards) means_[shard.key()] = at::zeros_like(shard.data);
  }

  void step(std::span<Shard> shards, const Update& update) override {
    const at::NoGradGuard no_grad;
    for (const Shard& shard : shards)
      if (shard.grad.defined()) update_one(shard, means_.at(shard.key()), update);
  }

  std::vector<OptimizerState> state(const Shard& shard) override {
    return {{"exp_avg", means_.at(shard.key())}};
  }

 private:
  /// A skipped step has rate 0 and gradient weight 0. An overflowed gradient is not finite, so it is
  /// replaced.
  void update_one(const Shard& shard, const Tensor& mean, const Update& update) const {
    const auto type = mean.scalar_type();
    Tensor gradient = shard.grad.to(type), rate = update.lr_tensor.to(type);
    Tensor weight = at::scalar_tensor(1 - settings_.beta2, mean.options());
    if (update.skip.defined()) {
      const Tensor made = 1 - update.skip.to(type);
      gradient = gradient.masked_fill(update.skip.to(at::kBool), 0);
      rate = rate * made;
      weight = weight * made;
    }
    if (shard.decay && settings_.weight_decay != 0) shard.data.mul_(1 - rate * settings_.weight_decay);
    shard.data.sub_(mean.lerp(gradient, 1 - settings_.beta1).sign_().mul_(rate));
    mean.lerp_(gradient, weight);
  }

  Settings settings_;
  std::unordered_map<const void*, Tensor> means_;
};
}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const Settings& settings, std::span<Shard> shards) {
  return std::make_unique<Lion>(settings, shards);
}
}  // namespace optrush::lion
