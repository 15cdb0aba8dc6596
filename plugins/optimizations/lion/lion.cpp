// Lion (arXiv:2302.06675): each parameter moves by the learning rate times the sign of an average of
// momentum and gradient. It keeps one number a parameter, where AdamW keeps two, and needs no root or
// division. All steps have one length, so its rate is a third to a tenth of AdamW's, and its weight decay is
// as much larger. It pays with large batches; for small ones the sign is mostly noise.
#include "lion_optimizer.h"

#include "optrush/plugin.h"

namespace {
using namespace optrush;

class LionPlugin final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    const lion::Settings settings{options.number("beta1"), options.number("beta2"),
                                  recipe.spec().train.weight_decay};
    recipe.optimizer.replace(
        [settings](Run&, std::span<Shard> shards) { return lion::make_optimizer(settings, shards); },
        {.trace = Trace::opaque, .capturable = true, .offers = {feature::fp64}, .predictable = true});
  }
};
}  // namespace

OPTRUSH_PLUGIN(LionPlugin, R"json({
  "name": "lion", "version": "0.1.0", "kind": "optimization", "effect": "model",
  "summary": "Lion: updates by the sign of a mean of gradients; 4 bytes of state per parameter instead of 8",
  "doc": "It replaces another optimizer: replace = {\"fused_adamw\"}. Use a learning rate of a third to a tenth of AdamW's.",
  "conflicts": ["adamw_8bit", "bf16_weights", "fused_adamw"],
  "options": [
    {"name": "beta1", "type": "number", "default": 0.9, "min": 0, "max": 0.9999, "doc": "weight of the mean in the direction of a step"},
    {"name": "beta2", "type": "number", "default": 0.99, "min": 0, "max": 0.9999, "doc": "decay of the mean"}
  ]
})json");
