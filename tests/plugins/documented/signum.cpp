// An optimizer: Signum (arXiv:1802.04434). A parameter moves by the learning rate, in the direction of the
// mean of its gradients. Put your own rule in update_one().
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <optrush/optimizer.h>
#include <optrush/plugin.h>

#include <unordered_map>

namespace {
using namespace optrush;

struct Settings {
  double momentum, weight_decay;
};

/// Works on any number of ranks: a shard has the elements of some parameters that this rank keeps.
class SignumOptimizer final : public Optimizer {
 public:
  SignumOptimizer(const Settings& settings, std::span<Shard> shards) : settings_(settings) {
    for (const Shard& shard : shards) means_[shard.key()] = at::zeros_like(shard.data);
  }

  void step(std::span<Shard> shards, const Update& update) override {
    const at::NoGradGuard no_grad;
    if (update.skip.defined() && update.skip.item<double>() != 0) return;  // a gradient overflowed
    for (Shard& shard : shards)
      if (shard.grad.defined()) update_one(shard, means_.at(shard.key()), update.lr);
  }

  /// The tensors of a saved state, by name. A run that continues starts from them.
  std::vector<OptimizerState> state(const Shard& shard) override {
    return {{"mean", means_.at(shard.key())}};
  }

 private:
  /// `shard.data` and `mean` have the same elements; lr is the learning rate of this step.
  void update_one(Shard& shard, Tensor& mean, double lr) const {
    if (shard.decay) shard.data.mul_(1 - lr * settings_.weight_decay);
    mean.lerp_(shard.grad.to(mean.scalar_type()), 1 - settings_.momentum);
    shard.data.add_(mean.sign(), -lr);
  }

  Settings settings_;
  std::unordered_map<const void*, Tensor> means_;
};

class SignumPlugin final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    const Settings settings{options.number("momentum"), recipe.spec().train.weight_decay};
    const auto make = [settings](Run&, std::span<Shard> shards) {
      return std::make_unique<SignumOptimizer>(settings, shards);
    };
    recipe.optimizer.replace(make, {.trace = Trace::opaque, .offers = {feature::fp64}, .predictable = true});
  }
};
}  // namespace

OPTRUSH_PLUGIN(SignumPlugin, R"json({
  "name": "signum",
  "version": "0.1.0",
  "summary": "an optimizer: the sign of a mean of gradients",
  "kind": "optimization",
  "effect": "model",
  "options": [
    {"name": "momentum", "type": "number", "default": 0.9, "min": 0, "max": 0.9999, "doc": "decay of the mean"}
  ]
})json");
