#include "recompute.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "optrush/random_state.h"

namespace optrush::checkpointing {
namespace {
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// What one checkpointed call needs to run again. Lives in the autograd node.
struct Replay final : torch::CustomClassHolder {
  std::shared_ptr<const UnitFunction> forward;
  Batch batch;
  const Scopes* scopes = nullptr;
  std::optional<RandomState> random;
};

struct Node : torch::autograd::Function<Node> {
  static Tensor forward(AutogradContext* context, const c10::intrusive_ptr<Replay>& replay, const Tensor& x,
                        const Tensor& /*anchor*/) {
    context->saved_data["replay"] =
        c10::IValue::make_capsule(c10::intrusive_ptr<torch::CustomClassHolder>(replay));
    context->save_for_backward({x});
    replay->random.emplace(x.device());
    Tensor out = (*replay->forward)(x, replay->batch);
    replay->random->forget_if_unused();
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto replay = c10::static_intrusive_pointer_cast<Replay>(context->saved_data["replay"].toCapsule());
    const Tensor saved = context->get_saved_variables().front();
    const Tensor x = saved.detach().requires_grad_(saved.requires_grad());
    const Tensor out = run_again(*replay, x);
    torch::autograd::backward({out}, {gradients.front()});
    return {Tensor(), x.grad(), Tensor()};
  }

  static Tensor run_again(const Replay& replay, const Tensor& x) {
    const at::AutoGradMode with_gradients(true);
    const auto scopes = replay.scopes->enter();
    const RandomState::Rewound rewound(*replay.random);
    return (*replay.forward)(x, replay.batch);
  }
};
}  // namespace

Tensor Recompute::operator()(const std::shared_ptr<const UnitFunction>& forward, const Tensor& x,
                             const Batch& batch, const Scopes& scopes) {
  if (!anchor_.defined()) anchor_ = at::empty({0}, x.options()).requires_grad_();
  auto replay = c10::make_intrusive<Replay>();
  replay->forward = forward;
  replay->batch = batch;
  replay->scopes = &scopes;
  return Node::apply(replay, x, anchor_);
}
}  // namespace optrush::checkpointing
