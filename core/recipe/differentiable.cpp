#include "optrush/differentiable.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "optrush/error.h"

namespace optrush {
namespace {
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void check_count(const Differentiable& op, const char* what, size_t got, size_t expected) {
  if (got != expected)
    throw Error("operator '" + op.name + "' returned " + std::to_string(got) + " " + what + ", expected " +
                std::to_string(expected));
}

/// The one autograd node behind every pair.
struct PairFunction : torch::autograd::Function<PairFunction> {
  static variable_list forward(AutogradContext* context, const Differentiable* op, at::TensorList inputs) {
    auto result = op->forward(inputs.vec());
    context->saved_data["op"] = reinterpret_cast<int64_t>(op);
    context->saved_data["inputs"] = static_cast<int64_t>(inputs.size());
    context->save_for_backward(std::move(result.saved));
    return std::move(result.outputs);
  }
  static variable_list backward(AutogradContext* context, variable_list output_gradients) {
    const auto* op = reinterpret_cast<const Differentiable*>(context->saved_data["op"].toInt());
    auto gradients = op->backward(context->get_saved_variables(), output_gradients);
    const auto expected = static_cast<size_t>(context->saved_data["inputs"].toInt());
    check_count(*op, "gradients", gradients.size(), expected);
    gradients.insert(gradients.begin(), Tensor());  // for the pointer to op
    return gradients;
  }
};

Tensors cast_inputs(const Differentiable& op, Tensors inputs) {
  if (op.cast == Cast::keep || inputs.empty()) return inputs;
  const auto device = inputs.front().device().type();
  if (!at::autocast::is_autocast_enabled(device)) return inputs;
  const auto target = op.cast == Cast::fp32 ? at::kFloat : at::autocast::get_autocast_dtype(device);
  for (auto& input : inputs)
    if (input.defined() && input.is_floating_point() && input.scalar_type() != at::kDouble)
      input = input.to(target);
  return inputs;
}
}  // namespace

Tensors call(const Differentiable& op, Tensors inputs) {
  inputs = cast_inputs(op, std::move(inputs));
  // Inside the pair nothing is cast again: the halves see the types that they get.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  return PairFunction::apply(&op, at::TensorList(inputs));
}
}  // namespace optrush
