// The head's matmul and its cross entropy as one operator (Liger Kernel, arXiv:2410.10989; Cut Cross-Entropy,
// arXiv:2411.09009): logits are made for one chunk of tokens at a time. The loss is the end of the network,
// so the gradient of the logits is computed at once, and neither tensor is ever whole. A chunk in the type of
// the matmul replaces several tensors of tokens x vocabulary. One kernel reads the logits of a chunk twice
// and writes the gradient in their place: 6 bytes per logit in bf16. It pays with a large vocabulary, where
// the logits are the largest tensor of a step; the matmuls are the same. It does not pay with a small
// vocabulary: each chunk adds to the gradient of the matrix. The forward computes the gradients, so an
// evaluation should run without them.
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <deque>
#include <optional>

#include "loss_function.h"
#include "optrush/plugin.h"

namespace {
using namespace optrush;

class FusedLinearCrossEntropy final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    recipe.loss_gradient.wrap(Phase::gradients, [this](auto inner) { return root_ = inner; },
                              {.trace = Trace::aten, .capturable = true, .predictable = true});
    recipe.ops.head_loss.replace_each(
        [this, chunk = options.integer("chunk")](const Module& module) -> Ops::HeadLoss::Fn {
          const Param* weight = module.params.at(0);
          ModulePairs& pairs = sites_.emplace_back();
          return [this, &pairs, weight, chunk](const Tensor& x, const Batch& batch,
                                               const Ops::HeadParts& parts) {
            // Made at the first call: only then it is known whether ranks split the vocabulary.
            if (!pairs.trains) {
              LossForm form{
                  .chunk = chunk, .wanted = {.weight = weight->trainable}, .soft_cap = parts.soft_cap};
              pairs.trains = make_loss_function(form, parts.part);
              form.wanted = {.x = false, .weight = false};
              pairs.evaluates = make_loss_function(form, parts.part);
            }
            Tensors in = {x, batch.labels, weight->compute_value()};
            if (!at::GradMode::is_enabled()) return call(*pairs.evaluates, std::move(in)).at(0);
            if (root_ && !tracing() && !parts.part) in.push_back(expected_gradient(x, batch));
            return call(*pairs.trains, std::move(in)).at(0);
          };
        },
        {.trace = Trace::pair,
         .capturable = true,
         .offers = {feature::fp64, feature::own_kernel, feature::vocabulary, feature::soft_cap}});
  }

 private:
  struct ModulePairs {
    std::optional<Differentiable> trains, evaluates;
  };

  /// The gradient of the sum of the losses, unless another plugin changes the loss: the initial gradient of
  /// the backward over the tokens of the step. In fp64, which autocast leaves as it is.
  Tensor expected_gradient(const Tensor& x, const Batch& batch) const {
    const at::NoGradGuard no_grad;
    return root_(at::empty({}, x.options().dtype(at::kDouble))).to(at::kDouble) / batch.token_count;
  }

  std::function<Tensor(const Tensor&)> root_;
  std::deque<ModulePairs> sites_;  // addresses must last
};
}  // namespace

OPTRUSH_PLUGIN(FusedLinearCrossEntropy, R"json({
  "name": "fused_linear_cross_entropy", "version": "0.1.0", "kind": "optimization", "effect": "rounding",
  "summary": "loss and gradient computed in chunks of tokens, without the full logits",
  "check": [{"options": {"chunk": 20}}],
  "options": [
    {"name": "chunk", "type": "integer", "default": 0, "min": -1, "max": 1073741824,
     "doc": "tokens per chunk; 0: chunks of 64 MiB of logits on a CPU, and on a GPU of 1 GiB, or of 4096 tokens if those take at most 2 GiB; -1: all tokens of a micro-batch"}
  ]
})json");
