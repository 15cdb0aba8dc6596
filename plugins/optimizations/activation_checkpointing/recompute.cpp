#include "recompute.h"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "optrush/advanced/saved_tensors.h"
#include "optrush/scopes.h"

namespace optrush::checkpointing {
namespace {
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The state to run one checkpointed call again. The autograd node owns it.
struct Replay final : torch::CustomClassHolder {
  Replay(std::shared_ptr<const UnitFunction> forward, Batch batch, Recomputation recomputation)
      : forward(std::move(forward)), batch(std::move(batch)), recomputation(std::move(recomputation)) {}
  std::shared_ptr<const UnitFunction> forward;
  Batch batch;
  Recomputation recomputation;
};

struct Node : torch::autograd::Function<Node> {
  static Tensor forward(AutogradContext* context, const c10::intrusive_ptr<Replay>& replay, const Tensor& x,
                        const Tensor& /*anchor*/) {
    context->saved_data["replay"] =
        c10::IValue::make_capsule(c10::intrusive_ptr<torch::CustomClassHolder>(replay));
    context->save_for_backward({x});
    return replay->recomputation.first([&] { return (*replay->forward)(x, replay->batch); });
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto replay = c10::static_intrusive_pointer_cast<Replay>(context->saved_data["replay"].toCapsule());
    const Tensor saved = context->get_saved_variables().front();
    const Tensor x = saved.detach().requires_grad_(saved.requires_grad());
    const Tensor out = replay->recomputation.again([&] { return (*replay->forward)(x, replay->batch); });
    // No parameter of the unit takes part in this step, so there is no gradient.
    if (out.requires_grad()) torch::autograd::backward({out}, {gradients.front()});
    return {Tensor(), x.grad(), Tensor()};
  }
};
}  // namespace

Tensor Recompute::operator()(const std::shared_ptr<const UnitFunction>& forward, const Tensor& x,
                             const Batch& batch, const Scopes& scopes) {
  if (!anchor_.defined()) anchor_ = at::empty({0}, x.options()).requires_grad_();
  return Node::apply(c10::make_intrusive<Replay>(forward, batch, Recomputation(scopes, x.device())), x,
                     anchor_);
}
}  // namespace optrush::checkpointing
