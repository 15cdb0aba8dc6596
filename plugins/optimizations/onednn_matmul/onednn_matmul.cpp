// fp32 matrix products on a CPU by oneDNN, which generates kernels for the processor at run time. LibTorch
// calls MKL for them, and MKL's AVX-512 kernels run only on Intel's processors. The kernels replace
// LibTorch's in the dispatcher, so autograd, other plugins and compiled blocks also call them. Products in 16
// bits use oneDNN already. It pays if products are most of a step. It does not pay on Intel's processors, for
// which MKL's kernels were made.
#include <optional>

#include "optrush/plugin.h"
#include "products.h"

namespace {
using namespace optrush;

class OneDnnMatmul final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    const bool always = options.string("processors") == "all";
    recipe.on(Event::mesh_initialized, Phase::base, [this, always](Run& run) {
      if (is_forecast(run.device())) return;
      if (!run.device().is_cpu())
        throw Skip("onednn_matmul is for products on a CPU; this run is on a GPU", "remove the rung");
      if (!onednn_matmul::available())
        throw Skip("this LibTorch does not call oneDNN's matmul on this processor",
                   "remove the rung, or use a processor with AVX-512 (avx512bw, avx512vl, avx512dq)");
      if (!always && !onednn_matmul::expected_faster())
        throw Skip("oneDNN is not known to be faster than MKL on this processor",
                   "set processors = \"all\" to measure it");
      products_.emplace();
    });
  }

 private:
  std::optional<onednn_matmul::Products> products_;
};
}  // namespace

OPTRUSH_PLUGIN(OneDnnMatmul, R"json({
  "name": "onednn_matmul", "version": "0.1.0", "kind": "optimization", "effect": "rounding",
  "summary": "fp32 products on a CPU by oneDNN instead of MKL",
  "options": [
    {"name": "processors", "type": "string", "default": "measured", "choices": ["measured", "all"],
     "doc": "measured: those that have AVX-512 and are not Intel's, otherwise the rung is skipped; all: this one, whatever it is"}
  ]
})json");
