// Fused AdamW: LibTorch's multi-tensor kernel reads and writes each parameter, gradient and moment once. The
// plain update makes about ten passes. It pays most if a model has many parameters and steps are short. The
// arithmetic is the same up to rounding. Update rule: arXiv:1711.05101.
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <unordered_map>

#include "optrush/plugin.h"

namespace {
using namespace optrush;

class FusedAdamW final : public Optimizer {
 public:
  FusedAdamW(const TrainSpec& spec, std::span<Shard> shards) : spec_(spec) {
    for (const Shard& shard : shards) {
      const auto options = at::TensorOptions(at::kFloat).device(shard.data.device());
      moments_[shard.key()] = {at::zeros_like(shard.data), at::zeros_like(shard.data),
                               at::zeros({}, options)};
    }
  }

  void step(std::span<Shard> shards, const Update& update) override {
    for (const bool decay : {true, false}) step_group(shards, decay, update);
  }

  std::vector<OptimizerState> state(const Shard& shard) override {
    const auto& moments = moments_.at(shard.key());
    return {{"exp_avg", moments.first},
            {"exp_avg_sq", moments.second},
            {.name = "step", .value = moments.steps, .block = 0}};
  }

 private:
  struct Moments {
    Tensor first, second, steps;
  };

  void step_group(std::span<Shard> shards, bool decay, const Update& update) {
    const at::NoGradGuard no_grad;
    Tensors data, gradients, first, second, steps;
    for (const Shard& shard : shards) {
      if (shard.decay != decay || !shard.grad.defined()) continue;
      auto& moments = moments_.at(shard.key());
      data.push_back(shard.data);
      gradients.push_back(shard.grad);
      first.push_back(moments.first);
      second.push_back(moments.second);
      steps.push_back(moments.steps);
    }
    if (data.empty()) return;
    at::_foreach_add_(steps, 1);
    // A skipped step does not count.
    if (update.skip.defined()) at::_foreach_sub_(steps, Tensors(steps.size(), update.skip));
    const auto skip = update.skip.defined() ? std::optional<Tensor>(update.skip) : std::nullopt;
    const double weight_decay = decay ? spec_.weight_decay : 0;
    at::_fused_adamw_(data, gradients, first, second, /*max_exp_avg_sqs=*/{}, steps, update.lr_tensor,
                      spec_.beta1, spec_.beta2, weight_decay, spec_.eps, /*amsgrad=*/false,
                      /*maximize=*/false,
                      /*grad_scale=*/std::nullopt, skip);
  }

  TrainSpec spec_;
  std::unordered_map<const void*, Moments> moments_;
};

class FusedAdamWPlugin final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options&) override {
    recipe.optimizer.replace(
        [](Run& run, std::span<Shard> shards) {
          return std::make_unique<FusedAdamW>(run.spec().train, shards);
        },
        {.trace = Trace::opaque, .capturable = true, .offers = {feature::fp64}, .predictable = true});
  }
};
}  // namespace

OPTRUSH_PLUGIN(FusedAdamWPlugin, R"json({
  "name": "fused_adamw", "version": "0.1.0", "kind": "optimization", "effect": "rounding",
  "summary": "AdamW in one pass over parameters, gradients and moments",
  "options": []
})json");
