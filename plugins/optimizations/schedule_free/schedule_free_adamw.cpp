#include "schedule_free_adamw.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

namespace optrush::schedule_free {
namespace {
class ScheduleFree final : public Optimizer {
 public:
  ScheduleFree(TrainSpec spec, double weight_power, std::span<Shard> shards)
      : spec_(std::move(spec)), weight_power_(weight_power) {
    const at::NoGradGuard no_grad;
    for (const Shard& shard : shards)
      kept_[shard.key()] = {.fast = shard.data.clone(), .second = at::zeros_like(shard.data)};
  }

  void step(std::span<Shard> shards, const Update& update) override {
    const at::NoGradGuard no_grad;
    if (update.skip.defined() && update.skip.item<double>() != 0) return;
    for (const Shard& shard : shards)
      if (shard.grad.defined()) update_one(shard, kept_.at(shard.key()), update.lr);
  }

  std::vector<OptimizerState> state(const Shard& shard) override {
    Kept& kept = kept_.at(shard.key());
    const auto number = [](const char* name, void* where, at::ScalarType type) {
      return OptimizerState{.name = name, .value = at::from_blob(where, {}, type), .block = 0};
    };
    std::vector<OptimizerState> all = {{"z", kept.fast},
                                       {"exp_avg_sq", kept.second},
                                       number("step", &kept.steps, at::kLong),
                                       number("weight_sum", &kept.weight_sum, at::kDouble),
                                       number("lr_max", &kept.largest_lr, at::kDouble)};
    if (kept.trained.defined()) all.push_back({"y", kept.trained});
    return all;
  }

  /// x = y + (1 - 1 / beta1) (z - y). y is kept, because y computed from x would not have the same bits.
  void evaluates(std::span<Shard> shards, bool does) override {
    const at::NoGradGuard no_grad;
    for (const Shard& shard : shards) {
      Kept& kept = kept_.at(shard.key());
      if (does) {
        kept.trained = shard.data.clone();
        shard.data.lerp_(kept.fast, 1 - 1 / spec_.beta1);
      } else {
        shard.data.copy_(std::exchange(kept.trained, Tensor()));
      }
    }
  }

 private:
  struct Kept {
    Tensor fast, second;  ///< z, and the mean of squared gradients
    Tensor trained;       ///< y, while the shard holds x
    int64_t steps = 0;
    double weight_sum = 0, largest_lr = 0;
  };

  /// Moves z by the gradient at y. Then moves y by the changes of x and z, without computing x.
  void update_one(const Shard& shard, Kept& kept, double lr) const {
    const auto steps = static_cast<double>(++kept.steps);
    kept.largest_lr = std::max(kept.largest_lr, lr);
    const double weight = std::pow(kept.largest_lr, weight_power_);
    kept.weight_sum += weight;
    const double share = kept.weight_sum > 0 ? weight / kept.weight_sum : 0;  // of z in the average

    const Tensor gradient = shard.grad.to(kept.second.scalar_type());
    kept.second.mul_(spec_.beta2).addcmul_(gradient, gradient, 1 - spec_.beta2);
    const Tensor direction =
        gradient / (kept.second / (1 - std::pow(spec_.beta2, steps))).sqrt_().add_(spec_.eps);
    if (shard.decay && spec_.weight_decay != 0) direction.add_(shard.data, spec_.weight_decay);
    shard.data.lerp_(kept.fast, share).add_(direction, lr * (spec_.beta1 * (1 - share) - 1));
    kept.fast.sub_(direction, lr);
  }

  TrainSpec spec_;
  double weight_power_;
  std::unordered_map<const void*, Kept> kept_;
};
}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const TrainSpec& spec, double weight_power,
                                          std::span<Shard> shards) {
  return std::make_unique<ScheduleFree>(spec, weight_power, shards);
}
}  // namespace optrush::schedule_free
