// bf16 parameters without fp32 copies (arXiv:2010.06192): an update is computed in fp32 and rounded to bf16
// stochastically, up with the probability of its distance from the lower neighbour. Rounding to nearest would
// always lose an update below half of the last bit; stochastic rounding keeps their sum correct on average.
// AdamW then takes 12 bytes a parameter; with masters it takes 16. It works with any optimizer: the fp32 copy
// for an update exists for one parameter at a time. It costs noise of the size of the last bit, and passes
// over the parameters to draw random numbers, which are slow on a CPU. Vectors, such as norm weights, stay in
// fp32: they are a ten-thousandth of the bytes, and their rounding error would be the same in every token.
#include "optrush/plugin.h"
#include "rounding_optimizer.h"

namespace {
using namespace optrush;

class StochasticRounding final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options&) override {
    if (recipe.spec().train.dtype == "fp64")
      throw Error("stochastic_rounding keeps weights in bf16, but train.dtype is fp64",
                  "leave train.dtype at fp32");
    recipe.set(&TrainSpec::dtype, std::string("bf16"));
    recipe.on(Event::meta_initialized, Phase::precision, [](Run& run) {
      for (Param* param : run.params().all())
        if (!param->codec && param->shape.size() < 2) param->dtype = at::kFloat;
    });
    recipe.on(Event::materialized, Phase::precision, add_up_in_fp32);
    // Around optimizers of some of the shards, inside wraps that decide when an optimizer is called.
    recipe.optimizer.wrap(Phase::gradients,
                          [](auto inner) {
                            return [inner](Run& run, std::span<Shard> shards) {
                              return stochastic_rounding::make_optimizer(run, shards, inner);
                            };
                          },
                          {.offers = {feature::rounds_by_chance}});
  }

 private:
  /// Gradients of micro-batches are summed in fp32: bf16 would lose terms below 2^-8 of the sum.
  static void add_up_in_fp32(Run& run) {
    if (run.spec().train.accumulation == 1) return;
    for (Param* param : run.params().all())
      if (param->trainable && param->leaf.defined() && param->leaf.scalar_type() == at::kBFloat16)
        param->leaf.set_grad_dtype(at::kFloat);
  }
};
}  // namespace

OPTRUSH_PLUGIN(StochasticRounding, R"json({
  "name": "stochastic_rounding", "version": "0.1.0", "kind": "optimization", "effect": "precision",
  "summary": "bf16 parameters without fp32 copies: updates are rounded at random, so that small ones add up",
  "doc": "It works with any optimizer, which then updates in fp32. It replaces mixed_precision: replace = {\"mixed_precision\"}.",
  "conflicts": ["adamw_8bit", "bf16_weights", "mixed_precision"],
  "check": [{}, {"with": ["lion"]}],
  "options": []
})json");
