// bf16 weights with fp32 masters (arXiv:1710.03740, section 3.1): matrices, activations and the residual
// stream are bf16. The optimizer keeps each matrix and its moments in fp32; one pass reads the bf16
// gradient and writes master and weight. Autocast keeps fp32 weights, gradients and residuals and casts
// between the two types. Here nothing is cast, and gradients and residuals take half the bytes. A
// parameter takes 16 bytes, as with autocast. With several micro-batches it takes 18, because gradients
// add up in fp32.
//
// Norm weights and other vectors stay fp32. A rounded factor (2^-9 of it) would be the same error in every
// token, its gradient is a sum over all tokens, and norms compute in fp32 anyway. Vectors are a
// ten-thousandth of the bytes. bf16 costs precision in two places: the residual stream is rounded at each
// addition, and the two gradients of a tied matrix are added in bf16.
//
// It does not pay on processors without bf16 matrix instructions, or if matmuls dominate. Models with many
// layers and a small residual update lose the most precision. The first masters are the exact values of a
// checkpoint.
#include <ATen/Functions.h>

#include "master_adamw.h"
#include "optrush/plugin.h"

namespace {
using namespace optrush;

class Bf16Weights final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options&) override {
    if (recipe.spec().train.dtype == "fp64")
      throw Error("bf16_weights keeps weights in bf16 and master weights in fp32, but train.dtype is fp64",
                  "leave train.dtype at fp32");
    recipe.set(&TrainSpec::dtype, std::string("bf16"));
    recipe.on(Event::meta_initialized, Phase::precision, [this](Run& run) { declare(run.params()); });
    recipe.on(Event::materialized, Phase::precision, add_up_in_fp32);
    recipe.on(Event::ready, Phase::optimizer, [](Run& run) {
      if (!run.device().is_cpu() && !run.device().is_cuda() && !is_forecast(run.device()))
        throw Skip("bf16_weights has kernels for CPUs and NVIDIA GPUs, not for " + run.device().str());
    });
    recipe.optimizer.replace(
        [this](Run& run, std::span<Shard> shards) {
          return master_adamw::make_optimizer(run.spec().train, shards, std::exchange(masters_, {}));
        },
        {.trace = Trace::opaque, .capturable = true, .predictable = true});
  }

 private:
  /// The parameters that are rounded to bf16, and the initial values of their masters.
  void declare(Params& params) {
    for (Param* param : params.all()) {
      if (param->codec) continue;
      if (param->shape.size() < 2) {
        param->dtype = at::kFloat;
      } else if (param->trainable) {
        param->on_materialize = [this, param](const Tensor& uncut) { masters_[param] = master_from(uncut); };
      }
    }
  }

  /// The value itself if it is fp32 and nothing else uses it; the parameter is a bf16 copy. A view must not
  /// keep the memory of a whole tensor that nothing else needs.
  static Tensor master_from(const Tensor& uncut) {
    const Tensor master = uncut.to(at::kFloat).contiguous().detach();
    return master.storage().nbytes() > master.nbytes() ? master.clone() : master;
  }

  /// Gradients of micro-batches are summed in fp32: bf16 would lose terms below 2^-8 of the sum.
  static void add_up_in_fp32(Run& run) {
    if (run.spec().train.accumulation == 1) return;
    for (Param* param : run.params().all())
      if (param->trainable && param->leaf.defined() && param->leaf.scalar_type() == at::kBFloat16)
        param->leaf.set_grad_dtype(at::kFloat);
  }

  master_adamw::Masters masters_;
};
}  // namespace

OPTRUSH_PLUGIN(Bf16Weights, R"json({
  "name": "bf16_weights", "version": "0.1.0", "kind": "optimization", "effect": "precision",
  "summary": "bf16 weights, gradients and residual stream; fp32 master weights and moments in a fused AdamW",
  "doc": "It replaces mixed_precision and the optimizer: replace = {\"mixed_precision\", \"fused_adamw\"}.",
  "conflicts": ["mixed_precision", "fused_adamw"],
  "options": []
})json");
