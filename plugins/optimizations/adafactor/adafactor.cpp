// Adafactor (arXiv:1804.04235): the second moments of a matrix (R, C) are R means over rows and C means
// over columns. There is no first moment. So the state has R + C numbers instead of AdamW's 2 R C. The
// length of a step is the learning rate times the root mean square of the parameter. An update whose root
// mean square is above 1 is scaled down. Arithmetic and defaults equal torch.optim.Adafactor, in which the
// learning rate bounds the relative step size and scales the weight decay. It pays if the optimizer state
// does not fit. Without momentum it needs more steps than AdamW.
//
// Ranks that have parts of parameters (fsdp, tensor_parallel) send R + C + 2 numbers per matrix and step.
#include "adafactor_optimizer.h"
#include "optrush/plugin.h"

namespace {
using namespace optrush;

class AdafactorPlugin final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    const adafactor::Settings settings{.decay = options.number("beta2_decay"),
                                       .eps1 = options.number("eps1"),
                                       .eps2 = options.number("eps2"),
                                       .threshold = options.number("d"),
                                       .weight_decay = recipe.spec().train.weight_decay};
    recipe.optimizer.replace(
        [settings](Run& run, std::span<Shard> shards) {
          auto split = adafactor::split_parameters(run);
          for (const auto& group : split)
            run.expect_traffic("all_reduce", group.dims, adafactor::bytes_of_sums(group));
          return adafactor::make_optimizer(settings, shards, std::move(split));
        },
        {.trace = Trace::opaque, .offers = {feature::fp64}, .predictable = true});
  }
};
}  // namespace

OPTRUSH_PLUGIN(AdafactorPlugin, R"json({
  "name": "adafactor", "version": "0.1.0", "kind": "optimization", "effect": "model",
  "summary": "Adafactor: second moments by row and column, no momentum; almost no optimizer state",
  "doc": "It replaces another optimizer: replace = {\"fused_adamw\"}. The learning rate is relative to the parameters: start from 0.01.",
  "conflicts": ["adamw_8bit", "bf16_weights", "fused_adamw", "lion"],
  "options": [
    {"name": "beta2_decay", "type": "number", "default": -0.8, "min": -1, "max": 0, "doc": "exponent of the step in the weight of a new gradient"},
    {"name": "eps1", "type": "number", "default": 1.1920928955078125e-07, "min": 1e-30, "max": 1, "doc": "lower bound of the root of a second moment; the default is the machine epsilon of fp32"},
    {"name": "eps2", "type": "number", "default": 0.001, "min": 0, "max": 1, "doc": "lower bound of the root mean square of a parameter, by which a step is scaled"},
    {"name": "d", "type": "number", "default": 1, "min": 1, "max": 1000, "doc": "largest root mean square of an update; larger updates are scaled down"}
  ]
})json");
