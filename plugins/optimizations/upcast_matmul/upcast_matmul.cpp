// Matrix products of bf16 and fp16 on a CPU, computed in fp32. It pays on processors whose 16-bit products
// are slower than fp32 ones: x86 processors without AMX, except AMD's with AVX512-BF16. A step in bf16 then
// has the memory of bf16 and about the speed of fp32. Sums are in fp32, as in LibTorch's products, and each
// result is rounded once.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <optional>

#include "kernel_parts/processor.h"
#include "optrush/forecast.h"
#include "optrush/plugin.h"
#include "upcast_products.h"

namespace {
using namespace optrush;

class UpcastMatmul final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    const bool always = options.string("processors") == "all";
    recipe.on(Event::mesh_initialized, Phase::base, [this, always](Run& run) {
      if (form_of(run.device()) != at::kCPU)
        throw Skip("upcast_matmul is for products on a CPU; this run is on a GPU", "remove the rung");
      if (!always && !fused::multiplies_faster_in_fp32())
        throw Skip("this processor multiplies bf16 faster than fp32",
                   "remove the rung, or set processors = \"all\" to measure it");
      workspace_ = at::empty({at::get_num_threads(), upcast_matmul::workspace_bytes()},
                             at::TensorOptions(at::kByte).device(run.device()));
      if (!is_forecast(run.device())) products_.emplace(workspace_);
    });
  }

 private:
  Tensor workspace_;
  std::optional<upcast_matmul::UpcastProducts> products_;
};
}  // namespace

OPTRUSH_PLUGIN(UpcastMatmul, R"json({
  "name": "upcast_matmul", "version": "0.1.0", "kind": "optimization", "effect": "rounding",
  "summary": "bf16 and fp16 products on a CPU in fp32, where the processor multiplies fp32 faster",
  "conflicts": ["onednn_matmul"],
  "check": [{"with": ["mixed_precision"]}],
  "options": [
    {"name": "processors", "type": "string", "default": "auto", "choices": ["auto", "all"],
     "doc": "auto: x86 processors without AMX, except AMD's with AVX512-BF16, otherwise the rung is skipped; all: this one, whatever it is"}
  ]
})json");
