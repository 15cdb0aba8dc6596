#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <cmath>
#include <unordered_map>
#include <utility>

#include "train/plain.h"

namespace optrush {
namespace {
class AdamW final : public Optimizer {
 public:
  AdamW(TrainSpec spec, std::span<Shard> shards) : spec_(std::move(spec)) {
    for (const Shard& shard : shards)
      moments_[shard.key()] = {at::zeros_like(shard.data), at::zeros_like(shard.data), 0};
  }

  void step(std::span<Shard> shards, const Update& update) override {
    const at::NoGradGuard no_grad;
    if (update.skip.defined() && update.skip.item<double>() != 0) return;
    for (Shard& shard : shards)
      if (shard.grad.defined()) update_one(shard, update.lr);
  }

  std::vector<OptimizerState> state(const Shard& shard) override {
    auto& moments = moments_.at(shard.key());
    return {{"exp_avg", moments.first},
            {"exp_avg_sq", moments.second},
            {.name = "step", .value = at::from_blob(&moments.steps, {}, at::kLong), .block = 0}};
  }

 private:
  struct Moments {
    Tensor first, second;
    int64_t steps = 0;
  };

  void update_one(Shard& shard, double lr) {
    auto& [first, second, counted] = moments_.at(shard.key());
    const auto steps = static_cast<double>(++counted);
    if (shard.decay) shard.data.mul_(1 - lr * spec_.weight_decay);
    first.lerp_(shard.grad, 1 - spec_.beta1);
    second.mul_(spec_.beta2).addcmul_(shard.grad, shard.grad, 1 - spec_.beta2);
    const double correction1 = 1 - std::pow(spec_.beta1, steps);
    const double correction2 = 1 - std::pow(spec_.beta2, steps);
    const Tensor denominator = (second.sqrt() / std::sqrt(correction2)).add_(spec_.eps);
    shard.data.addcdiv_(first, denominator, -lr / correction1);
  }

  TrainSpec spec_;
  std::unordered_map<const void*, Moments> moments_;
};
}  // namespace

std::unique_ptr<Optimizer> make_adamw(const TrainSpec& spec, std::span<Shard> shards) {
  return std::make_unique<AdamW>(spec, shards);
}
}  // namespace optrush
