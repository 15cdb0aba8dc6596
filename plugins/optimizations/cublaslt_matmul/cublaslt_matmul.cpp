// Matrix products on NVIDIA GPUs by own calls of cuBLASLt, with the algorithm that is the fastest on this
// card for each shape. LibTorch takes the first one of the library's heuristic, which is a few per cent
// slower for some shapes. A product that is added to a tensor needs no copy of it. The kernels replace
// LibTorch's in the dispatcher, so autograd and other plugins also call them. Compiled blocks do not, because
// they call LibTorch's kernels directly.
//
// Shapes are timed at the end of the first step, when activations are freed, no rank waits for another one,
// and nothing is captured. Choices are kept in a file. All ranks then read the file, so ranks that compute
// the same, such as the routers of tensor parallelism, have equal bits.
//
// It pays if products are most of a step and few in shape. It does not pay if their shapes vary.
#include <ATen/Functions.h>

#include <optional>

#include "gpu.h"
#include "kept_choices.h"
#include "optrush/advanced/machine.h"
#include "optrush/gpu_kernel.h"
#include "optrush/plugin.h"
#include "replaced_kernels.h"

namespace {
using namespace optrush;
using namespace optrush::cublaslt_matmul;

class CublasLtMatmul final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    if (recipe.spec().train.dtype == "fp64")
      throw Error("cublaslt_matmul multiplies fp32, bf16 and fp16, but train.dtype is fp64",
                  "remove cublaslt_matmul, or set train.dtype to fp32");
    const Limits limits{.candidates = static_cast<int>(options.integer("candidates")),
                        .workspace = options.integer("workspace_mib") << 20};
    recipe.on(Event::mesh_initialized, Phase::base, [this, limits](Run& run) { start(run, limits); });
    recipe.on(Event::step_end, Phase::base, [this](Run& run) {
      if (!replaced_ || chosen_) return;
      chosen_ = true;
      choose(run);
    });
    recipe.counter({.name = "products by cuBLASLt", .unit = "products", .per = Per::step},
                   [this] { return algorithms_ ? static_cast<double>(algorithms_->products()) : 0; });
    recipe.counter({.name = "timed shapes of products", .unit = "shapes"},
                   [this] { return algorithms_ ? static_cast<double>(algorithms_->timed()) : 0; });
  }

 private:
  void start(Run& run, const Limits& limits) {
    if (is_forecast(run.device())) return;  // of LibTorch's products, which take the same memory
    if (!run.device().is_cuda())
      throw Skip("cublaslt_matmul is for products on an NVIDIA GPU; this run is on a CPU", "remove the rung");
    algorithms_.emplace(run.device(), limits);
    kept_.emplace(cache_folder("cublaslt"), KeptFor{.card = name_of_card(run.device()),
                                                    .architecture = gpu_architecture(),
                                                    .version = CublasLt::find()->version(),
                                                    .limits = limits});
    std::string damage;
    algorithms_->take(kept_->read(&damage));
    if (!damage.empty())
      run.note("the choices of cublaslt_matmul in " + kept_->file().string() + " are made anew: " + damage);
    replaced_.emplace(*algorithms_);
  }

  void choose(Run& run) {
    {
      const Run::Guard uncounted = run.compiling("a choice of algorithms for products");
      if (const Choices made = algorithms_->choose(); !made.empty()) kept_->add(made);
    }
    const Mesh& mesh = run.mesh();
    if (mesh.world_size() > 1) {  // each rank has added its choices before one reads them
      const Tensor one = at::ones({1}, at::TensorOptions(at::kFloat).device(run.device()));
      mesh.group(mesh.all()).all_reduce(one).wait();
      one.item();
    }
    algorithms_->take(kept_->read());
  }

  std::optional<Algorithms> algorithms_;
  std::optional<KeptChoices> kept_;
  std::optional<ReplacedKernels> replaced_;
  bool chosen_ = false;
};
}  // namespace

OPTRUSH_PLUGIN(CublasLtMatmul, R"json({
  "name": "cublaslt_matmul", "version": "0.1.0", "kind": "optimization", "effect": "rounding", "needs": ["sm_80"],
  "summary": "products on a GPU by cuBLASLt, with the fastest algorithm for each shape and card",
  "options": [
    {"name": "candidates", "type": "integer", "default": 8, "min": 1, "max": 64,
     "doc": "algorithms of cuBLASLt's heuristic that are timed for each shape"},
    {"name": "workspace_mib", "type": "integer", "default": 32, "min": 0, "max": 1024,
     "doc": "memory of a product beside its matrices, in MiB; 32 is LibTorch's on Hopper and later"}
  ]
})json");
