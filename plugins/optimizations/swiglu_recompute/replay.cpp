#include "replay.h"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "optrush/advanced/saved_tensors.h"
#include "optrush/scopes.h"

namespace optrush {
namespace {
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// One call of the part before down, owned by the graph. The recomputed tensors are kept from down's backward
/// until the end of this part's backward.
class Replay final : public torch::CustomClassHolder {
 public:
  Replay(Ops::MlpParts parts, Recomputation recomputation)
      : parts_(std::move(parts)), recomputation_(std::move(recomputation)) {}

  Tensor forward(const Tensor& x) {
    return recomputation_.first([&] { return run(x); });
  }

  /// The hidden activations, with the graph that leads to them.
  const Tensor& hidden(const Tensor& saved_x) {
    if (!hidden_.defined()) {
      x_ = saved_x.detach().requires_grad_();
      hidden_ = recomputation_.again([&] { return run(x_); });
    }
    return hidden_;
  }

  /// Returns the gradient of x. Autograd adds the gradients of parameters to their leaves.
  Tensor backward(const Tensor& saved_x, const Tensor& gradient) {
    hidden(saved_x);
    const Tensor out = std::move(hidden_), x = std::move(x_);
    hidden_ = x_ = Tensor();
    torch::autograd::backward({out}, {gradient});
    return x.grad();
  }

 private:
  Tensor run(const Tensor& x) const { return parts_.glu(parts_.gate(x), parts_.up(x)); }

  Ops::MlpParts parts_;
  Recomputation recomputation_;
  Tensor x_, hidden_;
};

struct Hidden : torch::autograd::Function<Hidden> {
  static Tensor forward(AutogradContext* context, const c10::intrusive_ptr<Replay>& replay, const Tensor& x,
                        const Tensor& /*anchor*/) {
    context->saved_data["replay"] =
        c10::IValue::make_capsule(c10::intrusive_ptr<torch::CustomClassHolder>(replay));
    context->save_for_backward({x});
    return replay->forward(x);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto replay = c10::static_intrusive_pointer_cast<Replay>(context->saved_data["replay"].toCapsule());
    const Tensor x = context->get_saved_variables().front();
    const Tensor d_x = replay->backward(x, gradients.front());
    return {Tensor(), x.requires_grad() ? d_x : Tensor(), Tensor()};
  }
};
}  // namespace

Tensor recomputed_mlp(const Tensor& x, const Ops::MlpParts& parts, const Scopes& scopes) {
  const auto replay = c10::make_intrusive<Replay>(parts, Recomputation(scopes, x.device()));
  // Requires a gradient, so that the node exists even if only parameters of gate and up require one.
  const Tensor anchor = at::empty({0}, x.options()).requires_grad_();
  const Tensor hidden = Hidden::apply(replay, x, anchor);
  const void* const storage = hidden.storage().unsafeGetStorageImpl();
  const SavedTensorScope drop_hidden([&](const Tensor& tensor) -> PackedTensor {
    if (!tensor.has_storage() || tensor.storage().unsafeGetStorageImpl() != storage)
      return {tensor, [](const Tensor& kept) { return kept; }};
    return {x.detach(), [replay, sizes = tensor.sizes().vec(), strides = tensor.strides().vec(),
                         offset = tensor.storage_offset()](const Tensor& kept_x) {
              return replay->hidden(kept_x).detach().as_strided(sizes, strides, offset);
            }};
  });
  return parts.down(hidden);
}
}  // namespace optrush
