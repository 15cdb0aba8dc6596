// The SwiGLU MLP with a choice of saved tensors (docs/plugins/shipped/swiglu_recompute.md derives
// gradients and bytes). Level 0 keeps x, gate, up and hidden: three tensors of tokens x ffn_dim. The plain
// formula keeps a fourth, SiLU(gate). Level 1 keeps only x. Its backward runs the matmuls of gate and up
// again (two beside its six), but never the matmul of down. It pays if activations limit the batch: the MLP
// keeps the larger part of a Llama block's activations, and recomputing it costs less than recomputing the
// block (activation checkpointing, arXiv:1604.06174). With memory to spare it only costs time. If linears or
// the swiglu operator are edited (adapted, quantized), the MLP calls what these slots resolve to.
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "mlp_function.h"
#include "optrush/plugin.h"
#include "replay.h"

namespace {
using namespace optrush;

class SwigluRecompute final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    const Keep keep = options.integer("level") == 0 ? Keep::everything : Keep::input;
    const int64_t chunk = options.integer("chunk");
    if (keep == Keep::everything && chunk != 0)
      throw Error(ErrorCode::conflict, "option 'chunk' has no effect at level 0",
                  "leave it out, or use level = 1");
    recipe.ops.mlp.replace_each(
        [this, keep, chunk, &recipe](const Module& module) {
          return is_plain(recipe, module) ? paired(keep, chunk, module) : of_parts(keep, recipe);
        },
        // A recorded step must not read the random generator, which the form made of the parts does before it
        // recomputes.
        {.trace = Trace::pair,
         .capturable = keep == Keep::everything,
         .offers = {feature::adapters, feature::fp64}});
  }

 private:
  static bool is_plain(const Recipe& recipe, const Module& module) {
    return !recipe.ops.linear.edited() && !recipe.ops.swiglu.edited() &&
           std::ranges::none_of(module.params, [](const Param* param) { return param->codec != nullptr; });
  }

  static Ops::Mlp::Fn paired(Keep keep, int64_t chunk, const Module& module) {
    const Param *gate = module.params.at(0), *up = module.params.at(1), *down = module.params.at(2);
    const Differentiable op =
        make_mlp_function(keep, chunk, {gate->trainable, up->trainable, down->trainable});
    return [op, gate, up, down](const Tensor& x, const Ops::MlpParts&) {
      return call(op, {x, gate->compute_value(), up->compute_value(), down->compute_value()}).at(0);
    };
  }

  Ops::Mlp::Fn of_parts(Keep keep, const Recipe& recipe) {
    const bool own_swiglu = !recipe.ops.swiglu.edited();
    const auto kept_whole = [this, own_swiglu](const Tensor& x, const Ops::MlpParts& parts) {
      const Tensor gate = parts.gate(x), up = parts.up(x);
      return parts.down(own_swiglu ? call(swiglu_, {gate, up}).at(0) : parts.glu(gate, up));
    };
    if (keep == Keep::everything) return kept_whole;
    return [this, own_swiglu, kept_whole, &scopes = recipe.scopes()](const Tensor& x,
                                                                     const Ops::MlpParts& parts) {
      // A compiler chooses the saved tensors.
      if (!at::GradMode::is_enabled() || tracing()) return kept_whole(x, parts);
      Ops::MlpParts lean = parts;
      if (own_swiglu)
        lean.glu = [this](const Tensor& gate, const Tensor& up) { return call(swiglu_, {gate, up}).at(0); };
      return recomputed_mlp(x, lean, scopes);
    };
  }

  Differentiable swiglu_ = make_swiglu_function();
};
}  // namespace

OPTRUSH_PLUGIN(SwigluRecompute, R"json({
  "name": "swiglu_recompute", "version": "0.1.0", "kind": "optimization", "effect": "rounding",
  "summary": "the SwiGLU MLP saves only its input, or everything except the cheap intermediate results",
  "check": [{"options": {"chunk": 20}}, {"options": {"level": 0}}],
  "options": [
    {"name": "level", "type": "integer", "default": 1, "min": 0, "max": 1,
     "doc": "0: save x, gate, up and hidden; 1: save only x and recompute the others in the backward"},
    {"name": "chunk", "type": "integer", "default": 0, "min": 0, "max": 1073741824,
     "doc": "level 1: tokens per recomputed chunk; 0: 1024 on a CPU, 4096 on a GPU"}
  ]
})json");
