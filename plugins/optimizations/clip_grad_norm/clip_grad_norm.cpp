// Gradient clipping by global norm (arXiv:1211.5063): all gradients scaled by max_norm / norm where the norm
// is larger. It costs one pass over the gradients and makes training steadier, never faster.
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include "optrush/plugin.h"

namespace {
using namespace optrush;

class ClipGradNorm final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    recipe.on(Event::ready, Phase::gradients, [this](Run& run) { mesh_ = &run.mesh(); });
    recipe.gradients.wrap(
        Phase::gradients,
        [this, limit = options.number("max_norm")](auto inner, const Site&) -> decltype(inner) {
          return [this, inner, limit](std::span<Shard> shards, Update& update) {
            inner(shards, update);
            clip(shards, limit);
          };
        },
        {.trace = Trace::aten, .capturable = true});
  }

 private:
  void clip(std::span<Shard> shards, double limit) const {
    const at::NoGradGuard no_grad;
    Tensors gradients;
    for (const Shard& shard : shards)
      if (shard.grad.defined()) gradients.push_back(shard.grad);
    if (gradients.empty()) return;
    Tensor squares = at::stack(gradient_norms(shards)).square().sum();
    mesh_->sum(squares, shards.front().split_over);
    // Stays on the device: no host waits for the norm.
    const Tensor factor = (limit / (squares.sqrt() + 1e-6)).clamp_max(1.0);
    at::_foreach_mul_(gradients, factor);
  }

  const Mesh* mesh_ = nullptr;
};
}  // namespace

OPTRUSH_PLUGIN(ClipGradNorm, R"json({
  "name": "clip_grad_norm", "version": "0.1.0", "kind": "optimization", "effect": "model",
  "summary": "gradients scaled down to a largest global norm",
  "check": [{"options": {"max_norm": 0.5}}],
  "options": [
    {"name": "max_norm", "type": "number", "default": 1.0, "min": 1e-6, "max": 1e6, "doc": "largest L2 norm of all gradients together"}
  ]
})json");
