// AdamW whose moments take 8 bits instead of 32 (arXiv:2110.02861): 2 bytes a parameter and 8 for each block
// of 256; fp32 moments take 8 bytes a parameter. Each block of a moment has a scale, so a large number does
// not affect other blocks. The codes are densest near 0, where most moments are, and cover seven decades. The
// gain is memory. On a GPU it also moves fewer bytes; on a CPU decoding and encoding cost more than this
// saves.
//
// Parameters in bf16 are updated without an fp32 copy: 4 bytes a parameter and its moments. Rounding to
// nearest would always lose an update below half of the last bit. Stochastic rounding (as in torchao's
// optimizers and arXiv:2010.06192) keeps the sum of many small updates correct on average. Vectors stay in
// fp32.
//
// Two differences from the published method: a nonzero second moment stays above 0, because the update
// divides by its root and a near-zero divisor makes 8 bits diverge; and vectors, such as norm weights, keep
// fp32 moments: they are a ten-thousandth of the bytes.
#include "optimizer.h"

#include "code.h"
#include "optrush/plugin.h"

namespace {
using namespace optrush;

class AdamW8bitPlugin final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options&) override {
    recipe.on(Event::meta_initialized, Phase::optimizer, [](Run& run) {
      // A shard must not cut a block of numbers that share a scale.
      for (Param* param : run.params().all()) {
        if (adamw_8bit::is_narrow(*param))
          param->block = adamw_8bit::kBlock;
        else if (param->trainable && param->dtype == at::kBFloat16)
          param->dtype = at::kFloat;
      }
    });
    recipe.on(Event::ready, Phase::optimizer, [](Run& run) {
      if (!run.device().is_cpu() && !run.device().is_cuda() && !is_forecast(run.device()))
        throw Skip("adamw_8bit has kernels for CPUs and NVIDIA GPUs, not for " + run.device().str());
    });
    recipe.optimizer.replace(
        [](Run& run, std::span<Shard> shards) {
          return adamw_8bit::make_optimizer(run.spec().train, shards);
        },
        {.trace = Trace::opaque, .capturable = true, .predictable = true});
  }
};
}  // namespace

OPTRUSH_PLUGIN(AdamW8bitPlugin, R"json({
  "name": "adamw_8bit", "version": "0.1.0", "kind": "optimization", "effect": "precision",
  "summary": "AdamW with 8-bit moments, quantized in blocks of 256: 2 bytes per parameter instead of 8",
  "doc": "It replaces another optimizer: replace = {\"fused_adamw\"}. With train.dtype = \"bf16\" matrices have no fp32 copy: updates are rounded stochastically.",
  "conflicts": ["fused_adamw", "bf16_weights"],
  "options": []
})json");
