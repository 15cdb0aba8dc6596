// The operators of Gated DeltaNet (arXiv:2412.06464) as kernels. The plain form of the gated delta rule
// writes about twenty tensors, some of C numbers for each position and head. The kernel for CPUs keeps a
// chunk of 64 positions in the second cache; the kernels for GPUs keep it in shared memory and leave states
// and solutions to each other. Both save only the inputs, and the backward computes the states again. The
// plain form of the short convolution makes two passes for each tap; the kernel makes one for all, with SiLU.
//
// It pays in each model with Gated DeltaNet. It does not pay under `compile`, which traces the plain forms.
#include "optrush/plugin.h"

#include <algorithm>

#include "kernels.h"
#include "pairs.h"

namespace {
using namespace optrush;

/// With the documents, if a row has several.
Tensors inputs(Tensors operands, const Tensor& documents) {
  if (documents.defined()) operands.push_back(documents);
  return operands;
}

class FusedDeltaNet final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    const RunSpec& spec = recipe.spec();
    if (spec.model_kind != "llama" || !llama_of(spec).has_delta_net())
      throw Error("fused_delta_net does not apply: this model has no Gated DeltaNet",
                  "use a model with delta_net, or remove the rung");
    const auto kernels = options.list("kernels");
    if (kernels.empty())
      throw Error(ErrorCode::missing_value, "option 'kernels' is empty", "name a kernel, or remove the rung");
    const Traits traits{
        .trace = Trace::opaque, .capturable = true, .offers = {feature::fp64}, .predictable = true};
    for (const std::string& kernel : kernels) {
      if (kernel == "delta_rule")
        recipe.ops.delta_rule.replace(
            [this](const DeltaRuleInputs& in) {
              return call(rule_, inputs({in.q, in.k, in.v, in.log_decay, in.beta}, in.documents)).front();
            },
            traits);
      if (kernel == "convolution")
        recipe.ops.convolution.replace_each(
            [this](const Module& module) -> Ops::Convolution::Fn {
              return [this, weight = module.params.at(0)](const Tensor& x, const Segments& segments) {
                return call(convolution_, inputs({x, weight->value()}, segments.ids)).front();
              };
            },
            traits);
    }
    const bool fuses_rule = std::find(kernels.begin(), kernels.end(), "delta_rule") != kernels.end();
    const int64_t keys = fuses_rule ? llama_of(spec).delta_net.key_dim : 0;
    const int64_t widest =
        fused::gpu::widest_keys(spec.train.dtype == "fp64" ? fused::Type::fp64 : fused::Type::fp32);
    recipe.on(Event::mesh_initialized, Phase::base, [=](Run& run) {
      const auto form = form_of(run.device());
      if (form != at::kCPU && form != at::kCUDA)
        throw Skip("fused_delta_net has kernels for CPUs and NVIDIA GPUs, not for " + run.device().str(),
                   "remove the rung");
      if (form == at::kCUDA && keys > widest)
        throw Skip("the delta rule of fused_delta_net takes keys of up to " + std::to_string(widest) +
                       " numbers on a GPU, not of " + std::to_string(keys),
                   R"(remove "delta_rule" from its kernels, or the rung)");
    });
  }

 private:
  Differentiable rule_ = fused::delta_rule(), convolution_ = fused::convolution();
};
}  // namespace

OPTRUSH_PLUGIN(FusedDeltaNet, R"json({
  "name": "fused_delta_net", "version": "0.1.0", "kind": "optimization", "effect": "rounding",
  "summary": "fused kernels for the gated delta rule and the short convolution of Gated DeltaNet",
  "check": [{"model": "delta_net"}],
  "options": [
    {"name": "kernels", "type": "list", "default": ["delta_rule", "convolution"],
     "choices": ["delta_rule", "convolution"], "doc": "operators to fuse"}
  ]
})json");
