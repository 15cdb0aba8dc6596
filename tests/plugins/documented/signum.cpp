// Signum (arXiv:1802.04434): each parameter moves by the learning rate, in the direction of the mean of its
// gradients.
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <unordered_map>

#include "optrush/plugin.h"

namespace {
using namespace optrush;

struct Settings {
  double beta, weight_decay;
};

class Signum final : public Optimizer {
 public:
  Signum(const Settings& settings, std::span<Shard> shards) : settings_(settings) {
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
    if (shard.decay) shard.data.mul_(1 - lr * settings_.weight_decay);
    mean.lerp_(shard.grad.to(mean.scalar_type()), 1 - settings_.beta);
    shard.data.add_(mean.sign(), -lr);
  }

  Settings settings_;
  std::unordered_map<const void*, Tensor> means_;
};

class SignumPlugin final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    const Settings settings{options.number("beta"), recipe.spec().train.weight_decay};
    recipe.optimizer.replace(
        [settings](Run&, std::span<Shard> shards) { return std::make_unique<Signum>(settings, shards); },
        {.trace = Trace::opaque, .offers = {feature::fp64}, .predictable = true});
  }
};
}  // namespace

OPTRUSH_PLUGIN(SignumPlugin, R"json({
  "name": "signum", "version": "0.1.0", "kind": "optimization", "effect": "model",
  "summary": "Signum: one mean a parameter, and steps of one length",
  "options": [
    {"name": "beta", "type": "number", "default": 0.9, "min": 0, "max": 0.9999, "doc": "decay of the mean of the gradients"}
  ]
})json");
