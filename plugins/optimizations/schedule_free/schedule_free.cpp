// Schedule-Free AdamW (arXiv:2405.15682): an average replaces the decay of the learning rate, so the
// number of steps need not be known in advance. There are three sequences. z takes the steps of AdamW
// without momentum, x is the average of z, and gradients are taken at y = (1 - beta1) z + beta1 x. The
// parameters hold y in training. Validation, samples and saved weights use x, which is computed from y and
// z on demand; y is then kept beside it. The state has two numbers per parameter, as in AdamW, and a third
// one while x is used. It pays if a schedule would otherwise have to be tuned. train.lr_decay must be "none".
#include "optrush/plugin.h"
#include "schedule_free_adamw.h"

namespace {
using namespace optrush;

class ScheduleFreePlugin final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    if (recipe.spec().train.beta1 == 0)
      throw Error(
          "schedule_free needs train.beta1 above 0: with 0 the parameters do not determine the average",
          "set train.beta1 above 0, for example 0.9");
    recipe.optimizer.replace(
        [power = options.number("weight_lr_power")](Run& run, std::span<Shard> shards) {
          return schedule_free::make_optimizer(run.spec().train, power, shards);
        },
        {.trace = Trace::opaque, .offers = {feature::fp64}, .predictable = true});
  }
};
}  // namespace

OPTRUSH_PLUGIN(ScheduleFreePlugin, R"json({
  "name": "schedule_free", "version": "0.1.0", "kind": "optimization", "effect": "model",
  "summary": "Schedule-Free AdamW: weights are averaged, so no learning-rate schedule is needed",
  "doc": "It replaces another optimizer: replace = {\"fused_adamw\"}. Validation, samples and saved weights use the averaged weights.",
  "conflicts": ["adafactor", "adamw_8bit", "bf16_weights", "fused_adamw", "lion"],
  "options": [
    {"name": "weight_lr_power", "type": "number", "default": 2, "min": 0, "max": 10, "doc": "a step weighs in the average as this power of the largest learning rate so far"}
  ]
})json");
