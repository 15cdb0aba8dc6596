#include "origin.h"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

namespace optrush::checkpointing {
namespace {
/// Whether `tensor` is `input` in another type, according to autograd's graph.
bool is_cast_of(const Tensor& tensor, const Tensor& input) {
  const auto& made_by = tensor.grad_fn();
  if (!made_by || made_by->name() != "ToCopyBackward0" || tensor.sizes() != input.sizes() ||
      tensor.device() != input.device())
    return false;
  const auto edge = torch::autograd::impl::gradient_edge(input);
  return edge.is_valid() && made_by->next_edge(0) == edge;
}
}  // namespace

Tensor root_of(const Tensor& tensor) { return tensor.is_view() ? Tensor(tensor._base()) : tensor; }

bool lives_anyway(const Tensor& tensor) {
  const Tensor root = root_of(tensor);
  // Outputs of a custom derivative are also leaves here, but their views have that derivative's node.
  if (root.is_leaf()) return root.requires_grad() || !tensor.grad_fn();
  const auto& made_by = root.grad_fn();
  const auto source = made_by->num_outputs() == 1 ? made_by->next_edge(0).function : nullptr;
  return made_by->name() == "ToCopyBackward0" && source &&
         source->name() == "torch::autograd::AccumulateGrad";
}

const void* storage_of(const Tensor& tensor) {
  return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

std::optional<Origin> Origin::find(const Tensor& saved, const Tensors& inputs) {
  if (!saved.has_storage()) return {};
  Origin origin;
  origin.sizes_ = saved.sizes().vec();
  origin.strides_ = saved.strides().vec();
  origin.offset_ = saved.storage_offset();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    origin.input_ = i;
    if (storage_of(inputs[i]) == storage_of(saved) && inputs[i].scalar_type() == saved.scalar_type())
      return origin;
    if (is_cast_of(root_of(saved), inputs[i])) {
      origin.cast_ = saved.scalar_type();
      return origin;
    }
  }
  return {};
}

Tensor Origin::derive(const Tensor& input) const {
  const Tensor base = cast_ ? input.to(*cast_) : input;
  return base.as_strided(sizes_, strides_, offset_);
}
}  // namespace optrush::checkpointing
