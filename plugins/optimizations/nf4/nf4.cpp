// Frozen matrices of the blocks in 4 bits (QLoRA, arXiv:2305.14314): NormalFloat numbers in blocks of 64,
// each with an 8-bit scale. That is 4.13 bits a parameter; bf16 has 16. Trained parameters are added by other
// plugins: with `lora` this is QLoRA. The forward and the backward each decode a matrix into the type of its
// product and free it afterwards, so models of four times the size fit. It costs one pass over each matrix
// for each product, which is little beside products of many tokens.
//
// The head and the embedding are not quantized, as is usual: they read and write single
// tokens. Codes are rounded, so the trained model differs from the loaded one by the error of
// 4 bits.

#include "linear_function.h"
#include "optrush/plugin.h"

namespace {
using namespace optrush;
using nf4::Nf4Codec;

class Nf4 final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    codec_ = std::make_shared<const Nf4Codec>(options.boolean("double_quantization"));
    // After all plugins have set the trainable parameters.
    recipe.on(Event::meta_initialized, Phase::precision, [this](Run& run) { declare(run); });
    recipe.ops.linear.replace_each([this](const Module& module) { return replacement(module); },
                                   {.trace = Trace::pair, .capturable = true, .predictable = true});
  }

 private:
  void declare(Run& run) {
    bool any = false;
    for (const Module* module : run.modules("linear")) {
      Param& weight = *module->params.at(0);
      if (module->layer < 0 || weight.trainable) continue;
      weight.codec = codec_;
      any = true;
    }
    if (!any)
      throw Error("nf4 does not apply: every matrix of the blocks is trained",
                  "stack a plugin that freezes the matrices and trains adapters: lora");
  }

  Ops::Linear::Fn replacement(const Module& module) {
    const Param* weight = module.params.at(0);
    if (weight->codec != codec_) return {};
    return [pair = nf4::make_linear_function(codec_, weight->layout.box_shape()), weight](const Tensor& x) {
      Tensors inputs = {x.to(autocast_type(x.device().type()).value_or(x.scalar_type()))};
      inputs.insert(inputs.end(), weight->stored.begin(), weight->stored.end());
      return call(pair, std::move(inputs)).front();
    };
  }

  std::shared_ptr<const Nf4Codec> codec_;
};
}  // namespace

OPTRUSH_PLUGIN(Nf4, R"json({
  "name": "nf4", "version": "0.1.0", "kind": "optimization", "effect": "precision",
  "summary": "frozen matrices of the blocks in 4 bits (NormalFloat); with lora: QLoRA",
  "requires": ["lora"],
  "check": [{}, {"options": {"double_quantization": false}}],
  "options": [
    {"name": "double_quantization", "type": "boolean", "default": true,
     "doc": "quantize the block scales to 8 bits: 4.13 bits per parameter instead of 4.5"}
  ]
})json");
