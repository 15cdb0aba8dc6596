// TF32 matmuls: fp32 inputs rounded to 10 bits of mantissa on the tensor cores of NVIDIA GPUs since Ampere,
// fp32 sums. They reach up to 8 times the rate of fp32. With bf16 or fp16 autocast below it in the stack, the
// effect is small.
#include <ATen/Context.h>

#include "optrush/plugin.h"

namespace {
using namespace optrush;

class Tf32 final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    recipe.on(Event::ready, Phase::precision, [convolutions = options.boolean("cudnn")](Run& run) {
      if (is_forecast(run.device())) return;
      if (!run.device().is_cuda())
        throw Skip("TF32 exists on NVIDIA GPUs only; this run is on the CPU",
                   "use mixed_precision with bf16 here");
      at::globalContext().setAllowTF32CuBLAS(true);
      at::globalContext().setAllowTF32CuDNN(convolutions);
    });
  }
};
}  // namespace

OPTRUSH_PLUGIN(Tf32, R"json({
  "name": "tf32", "version": "0.1.0", "kind": "optimization", "effect": "precision", "needs": ["cuda"],
  "summary": "fp32 matmuls in TF32 on tensor cores",
  "options": [
    {"name": "cudnn", "type": "boolean", "default": true, "doc": "allow TF32 in cuDNN as well"}
  ]
})json");
