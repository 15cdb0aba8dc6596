#include "optrush/differentiable.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <utility>

#include "optrush/error.h"
#include "optrush/scopes.h"
#include "recipe/call_observer.h"

namespace optrush {
namespace {
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void check_count(const Differentiable& op, const char* what, size_t got, size_t expected) {
  if (got != expected)
    throw Error(ErrorCode::invalid_plugin, "operator '" + op->name + "' returned " + std::to_string(got) +
                                               " " + what + ", expected " + std::to_string(expected));
}

/// Keeps the operator of a node in the context's saved data.
struct KeptOperator : torch::CustomClassHolder {
  explicit KeptOperator(Differentiable kept) : op(std::move(kept)) {}
  Differentiable op;
};

/// The autograd node of every Differentiable.
struct AutogradFunction : torch::autograd::Function<AutogradFunction> {
  static variable_list forward(AutogradContext* context, const Differentiable& op, at::TensorList inputs) {
    auto result = op->forward(inputs.vec());
    context->set_materialize_grads(
        false);  // set_materialize_grads: zeros for a missing gradient of an output would be written and read
    context->saved_data["op"] = at::IValue::make_capsule(c10::make_intrusive<KeptOperator>(op));
    context->saved_data["inputs"] = static_cast<int64_t>(inputs.size());
    context->save_for_backward(std::move(result.saved));
    return std::move(result.outputs);
  }
  static variable_list backward(AutogradContext* context, variable_list output_gradients) {
    const auto kept = context->saved_data["op"].toCapsule();
    const Differentiable& op = static_cast<const KeptOperator&>(*kept).op;
    const auto expected = static_cast<size_t>(context->saved_data["inputs"].toInt());
    const bool any = std::ranges::any_of(output_gradients, [](const Tensor& g) { return g.defined(); });
    auto gradients = any ? op->backward(context->get_saved_variables(), output_gradients) : Tensors(expected);
    check_count(op, "gradients", gradients.size(), expected);
    gradients.insert(gradients.begin(), Tensor());  // the gradient of op, which is no tensor
    return gradients;
  }
};

Tensors cast_inputs(const Differentiable& op, Tensors inputs) {
  if (op->cast == Cast::keep || inputs.empty()) return inputs;
  const auto lower = autocast_type(inputs.front().device().type());
  if (!lower) return inputs;
  const auto target = op->cast == Cast::fp32 ? at::kFloat : *lower;
  for (auto& input : inputs)
    if (input.defined() && input.is_floating_point() && input.scalar_type() != at::kDouble)
      input = input.to(target);
  return inputs;
}

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): of the thread that calls
thread_local TracedFunctions* traced_functions = nullptr;
thread_local CallObserver* call_observer = nullptr;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

/// The operator optrush::call. The tracer records the call and does not trace into it.
// NOLINTNEXTLINE(performance-unnecessary-value-param): the dispatcher gives values
Tensors run_traced_pair(std::string pair, Tensors inputs) {
  const auto& entry = traced_functions->entries().at(std::stoul(pair));
  return AutogradFunction::apply(entry.op, at::TensorList(inputs));
}

Tensors call_node(const std::string& pair, const Tensors& inputs) {
  // Registered at the first trace of the process and kept.
  static const auto library = [] {
    torch::Library made(torch::Library::FRAGMENT, "optrush", std::nullopt, __FILE__, __LINE__);
    made.def("call(str pair, Tensor[] inputs) -> Tensor[]");
    made.impl("call", torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd,
                                      torch::CppFunction::makeFromUnboxedFunction(&run_traced_pair)));
    return made;
  }();
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("optrush::call", "")
                             .typed<Tensors(std::string, Tensors)>();
  return op.call(pair, inputs);
}
}  // namespace

TracedFunctions::TracedFunctions() : outer_(std::exchange(traced_functions, this)) {}
TracedFunctions::~TracedFunctions() { traced_functions = outer_; }

CallObserver::CallObserver(See see) : see_(std::move(see)), outer_(std::exchange(call_observer, this)) {}
CallObserver::~CallObserver() { call_observer = outer_; }

Tensors call(const Differentiable& op, Tensors inputs) {
  inputs = cast_inputs(op, std::move(inputs));
  // No autocast inside forward and backward: they get the types that Cast states.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  if (!tracing()) {
    if (call_observer != nullptr) call_observer->see_(op, inputs);
    return AutogradFunction::apply(op, at::TensorList(inputs));
  }
  if (op->traits.trace == Trace::opaque || traced_functions == nullptr)
    throw Error(
        ErrorCode::unsupported,
        "operator '" + op->name + "' cannot be traced: its forward and backward do not consist of ATen calls",
        "declare the slot's base as opaque (Trace::opaque): the reference implementation is then traced "
        "instead");
  traced_functions->entries_.push_back({op, inputs});
  return call_node(std::to_string(traced_functions->entries_.size() - 1), inputs);
}
}  // namespace optrush
