// Fused kernels: RMSNorm, residual + RMSNorm (arXiv:1910.07467), rotary embedding (arXiv:2104.09864) and
// gated linear units (SwiGLU, GEGLU: arXiv:2002.05202). Forward and backward are one pass over memory
// each. The plain forms make two to eight passes, and each reads and writes a tensor. These operators make
// a few FLOPs per byte, so the passes are their cost. Norms keep their input and one number per row;
// rotations keep only the tables. The backward of a norm also adds the gradient of the residual stream.
// The kernels of a CPU use the widest vectors that are found at run time. Those of a GPU are compiled for
// its architecture when they first run. It pays least if matmuls dominate (wide models on slow matrix units).
// It has no effect on operators that a compiler fuses: under `compile` a traced block uses the plain forms.

#include <map>
#include <mutex>
#include <optional>

#include "optrush/forecast.h"
#include "optrush/plugin.h"
#include "optrush/scopes.h"
#include "pairs.h"

namespace {
using namespace optrush;

/// A pair for each epsilon and result type, made at the first request.
class NormPairs {
 public:
  using Low = std::optional<at::ScalarType>;
  using Make = Differentiable (*)(double eps, Low, fused::Largest);
  explicit NormPairs(Make make) : make_(make) {}
  void find(fused::Largest largest) { largest_ = largest; }
  Differentiable of(double eps, Low low) {
    const std::lock_guard lock(mutex_);
    const auto found = pairs_.find({eps, low});
    return found != pairs_.end()
               ? found->second
               : pairs_.emplace(std::pair(eps, low), make_(eps, low, largest_)).first->second;
  }

 private:
  Make make_;
  fused::Largest largest_ = fused::Largest::unknown;
  std::mutex mutex_;  // a backward that recomputes may run on another thread
  std::map<std::pair<double, Low>, Differentiable> pairs_;
};

class FusedKernels final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    const auto kernels = options.list("kernels");
    if (kernels.empty())
      throw Error(ErrorCode::missing_value, "option 'kernels' is empty", "name a kernel, or remove the rung");
    lower_ = options.boolean("autocast_output");
    if (options.boolean("largest_values")) note_largest_values();
    for (const std::string& kernel : kernels) {
      if (kernel == "norm") replace_norm(recipe);
      if (kernel == "add_norm") replace_add_norm(recipe);
      if (kernel == "position") replace_position(recipe);
      if (kernel == "swiglu") replace_swiglu(recipe);
      if (kernel == "geglu") replace_geglu(recipe);
    }
    recipe.on(Event::ready, Phase::base, [this](Run& run) { report(run); });
  }

 private:
  static Traits traits() {
    return {.trace = Trace::opaque, .capturable = true, .offers = {feature::fp64}, .predictable = true};
  }

  void note_largest_values() {
    norms_.find(fused::Largest::noted);
    add_norms_.find(fused::Largest::noted);
    swiglu_ = fused::swiglu(fused::Largest::noted);
    geglu_ = fused::geglu(fused::Largest::noted);
  }

  /// The type to which the linears after a norm would cast its result.
  NormPairs::Low low_type(const Tensor& x) const {
    return lower_ ? autocast_type(x.device().type()) : std::nullopt;
  }

  /// LayerNorm keeps the plain form: it has a bias, or no parameter.
  bool fuses(const Module& module) {
    const bool rms = !module.params.empty() && module.params.front()->name.ends_with(".weight") &&
                     (module.params.size() == 1 || !module.params[1]->name.ends_with(".bias"));
    (rms ? fused_sites_ : plain_modules_) += 1;
    return rms;
  }

  void replace_norm(Recipe& recipe) {
    recipe.ops.norm.replace_each(
        [this](const Module& module) -> Ops::Norm::Fn {
          if (!fuses(module)) return {};
          return [this, weight = module.params.front()](const Tensor& x, const NormArgs& args) {
            return call(norms_.of(args.eps, low_type(x)), {x, weight->value()}).at(1);
          };
        },
        traits());
  }

  void replace_add_norm(Recipe& recipe) {
    recipe.ops.add_norm.replace_each(
        [this](const Module& module) -> Ops::AddNorm::Fn {
          if (!fuses(module)) return {};
          return [this, weight = module.params.front()](const Tensor& x, const Tensor& delta,
                                                        const NormArgs& args) -> std::array<Tensor, 2> {
            const auto low = low_type(x);
            auto out = delta.defined() ? call(add_norms_.of(args.eps, low), {x, delta, weight->value()})
                                       : call(norms_.of(args.eps, low), {x, weight->value()});
            return {std::move(out[0]), std::move(out[1])};
          };
        },
        traits());
  }

  void replace_position(Recipe& recipe) {
    ++fused_sites_;
    recipe.ops.position.replace(
        [this](const Tensor& q, const Tensor& k, const Batch& batch) -> std::array<Tensor, 2> {
          auto out = call(position_, {q, k, batch.cos, batch.sin});
          return {std::move(out[0]), std::move(out[1])};
        },
        traits());
  }

  void replace_swiglu(Recipe& recipe) {
    ++fused_sites_;
    recipe.ops.swiglu.replace(
        [this](const Tensor& gate, const Tensor& up) {
          return call(swiglu_, {gate, up}).front();
        },
        traits());
  }

  /// The exact GELU keeps the plain form.
  void replace_geglu(Recipe& recipe) {
    const bool by_tanh =
        recipe.spec().model_kind == "llama" && llama_of(recipe.spec()).activation == Activation::gelu_tanh;
    if (!by_tanh) return;
    ++fused_sites_;
    recipe.ops.geglu.replace(
        [this](const Tensor& gate, const Tensor& up) {
          return call(geglu_, {gate, up}).front();
        },
        traits());
  }

  void report(Run& run) const {
    if (fused_sites_ == 0)
      throw Error("fused_kernels has nothing to fuse: the norms of this model are not RMSNorm",
                  "add \"position\" or \"swiglu\" to its kernels, or remove the rung");
    if (plain_modules_ > 0)
      run.note("fused_kernels: " + std::to_string(plain_modules_) +
               " norms are not RMSNorm and are not fused");
    const auto form = form_of(run.device());
    if (form != at::kCPU && form != at::kCUDA)
      throw Skip("fused_kernels has kernels for CPUs and NVIDIA GPUs, not for " + run.device().str());
  }

  bool lower_ = true;
  int64_t fused_sites_ = 0, plain_modules_ = 0;
  NormPairs norms_{fused::norm}, add_norms_{fused::add_norm};
  Differentiable position_ = fused::position(), swiglu_ = fused::swiglu(), geglu_ = fused::geglu();
};
}  // namespace

OPTRUSH_PLUGIN(FusedKernels, R"json({
  "name": "fused_kernels", "version": "0.1.0", "kind": "optimization", "effect": "rounding",
  "summary": "fused kernels for norms, rotary embedding and gated linear units, each in one pass over memory",
  "options": [
    {"name": "kernels", "type": "list", "default": ["norm", "add_norm", "position", "swiglu", "geglu"],
     "choices": ["norm", "add_norm", "position", "swiglu", "geglu"], "doc": "operators to fuse"},
    {"name": "autocast_output", "type": "boolean", "default": true,
     "doc": "under autocast, norms write the low-precision type directly, instead of a cast in each following linear layer; false: norms write fp32"},
    {"name": "largest_values", "type": "boolean", "default": false,
     "doc": "on a GPU the kernels also find the largest absolute values of what they write for linears, which float8 then need not read for its scales"}
  ]
})json");
