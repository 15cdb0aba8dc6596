// Lion (arXiv:2302.06675): each parameter moves by the learning rate, in the direction of a mean of
// gradients.
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <unordered_map>

#include "optrush/optimizer.h"
#include "optrush/plugin.h"

namespace {
using namespace optrush;

struct Settings {
  double beta1, beta2, weight_decay;
};

class Lion final : public Optimizer {
 public:
  Lion(const Settings& settings, std::span<Shard> shards) : settings_(settings) {
    for (const Shard& shard : shards) means_[shard.key()] = at::zeros_like(shard.data);
  }

  void step(std::span<Shard> shards, const Update& update) override {
    const at::NoGradGuard no_grad;
    if (update.skip.defined() && update.skip.item<double>() != 0) return;  // a gradient overflowed
    for (Shard& shard : shards)
      if (shard.grad.defined()) update_one(shard, means_.at(shard.key()), update.lr);
  }

  std::vector<OptimizerState> state(const Shard& shard) override {
    return {{"mean", means_.at(shard.key())}};
  }

 private:
  void update_one(Shard& shard, Tensor& mean, double lr) const {
    const Tensor gradient = shard.grad.to(mean.scalar_type());
    if (shard.decay) shard.data.mul_(1 - lr * settings_.weight_decay);
    shard.data.add_(mean.lerp(gradient, 1 - settings_.beta1).sign_(), -lr);
    mean.lerp_(gradient, 1 - settings_.beta2);
  }

  Settings settings_;
  std::unordered_map<const void*, Tensor> means_;
};

class LionPlugin final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    const Settings settings{options.number("beta1"), options.number("beta2"),
                            recipe.spec().train.weight_decay};
    recipe.optimizer.replace(
        [settings](Run&, std::span<Shard> shards) { return std::make_unique<Lion>(settings, shards); },
        {.trace = Trace::opaque, .offers = {"double"}, .predictable = true});
  }
};
}  // namespace

OPTRUSH_PLUGIN(LionPlugin, R"json({
  "name": "lion", "version": "0.1.0", "kind": "optimization", "effect": "model",
  "summary": "Lion: one mean a parameter, and steps of one length",
  "options": [
    {"name": "beta1", "type": "number", "default": 0.9, "min": 0, "max": 0.9999, "doc": "decay of the mean in a step's direction"},
    {"name": "beta2", "type": "number", "default": 0.99, "min": 0, "max": 0.9999, "doc": "decay of the mean that is kept"}
  ]
})json");
