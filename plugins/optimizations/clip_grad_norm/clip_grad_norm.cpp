// Gradient clipping by global norm (arXiv:1211.5063): all gradients are scaled by max_norm / norm if the norm
// is larger than max_norm. It costs one pass over the gradients and makes training steadier, never faster.
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include "optrush/plugin.h"

namespace {
using namespace optrush;

class ClipGradNorm final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    recipe.gradients.wrap(Phase::gradients,
                          [limit = options.number("max_norm")](auto inner) {
                            return [inner, limit](Gradients& gradients, Update& update) {
                              inner(gradients, update);
                              clip(gradients, limit);
                            };
                          },
                          {.trace = Trace::aten, .capturable = true});
  }

 private:
  static void clip(const Gradients& gradients, double limit) {
    const at::NoGradGuard no_grad;
    // The norm stays on the device, so the host does not wait for it. A rank without gradients takes part.
    const Tensor factor = (limit / (gradients.norm() + 1e-6)).clamp_max(1.0);
    for (const Tensors& same : alike(gradients.tensors())) {
      const bool exact = same.front().scalar_type() == at::kDouble;
      at::_foreach_mul_(same, factor.to(same.front().device(), exact ? at::kDouble : at::kFloat));
    }
  }
};
}  // namespace

OPTRUSH_PLUGIN(ClipGradNorm, R"json({
  "name": "clip_grad_norm", "version": "0.1.0", "kind": "optimization", "effect": "model",
  "summary": "gradients clipped to a maximum global norm",
  "check": [{"options": {"max_norm": 0.5}}],
  "options": [
    {"name": "max_norm", "type": "number", "default": 1.0, "min": 1e-6, "max": 1e6, "doc": "maximum L2 norm of all gradients together"}
  ]
})json");
