#include "unit_graph.h"

#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/hash.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/passes/canonicalize.h>

#include "optrush/differentiable.h"
#include "optrush/error.h"
#include "optrush/param.h"
#include "optrush/scopes.h"

namespace optrush::compile {
namespace {
using torch::jit::Graph;
using torch::jit::Stack;

/// A cast that autocast cached before the trace would become a constant of the graph.
class NoAutocastCache {
 public:
  NoAutocastCache() : before_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::clear_cache();
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~NoAutocastCache() { at::autocast::set_autocast_cache_enabled(before_); }
  NoAutocastCache(const NoAutocastCache&) = delete;
  NoAutocastCache& operator=(const NoAutocastCache&) = delete;

 private:
  bool before_;
};

/// Traces `function` as a graph with one output, a tuple of its tensors.
std::shared_ptr<Graph> trace(const Tensors& inputs, const std::function<Tensors(const Tensors&)>& function) {
  Stack stack(inputs.begin(), inputs.end());
  const auto on_stack = [&](const Stack& arguments) {
    Tensors tensors;
    for (const auto& argument : arguments) tensors.push_back(argument.toTensor());
    std::vector<c10::IValue> results;
    for (auto& result : function(tensors)) results.emplace_back(std::move(result));
    return Stack{c10::ivalue::Tuple::create(std::move(results))};
  };
  try {
    return torch::jit::tracer::trace(std::move(stack), on_stack, [](const Tensor&) { return std::string(); })
        .first->graph;
  } catch (...) {
    torch::jit::tracer::abandon();
    throw;
  }
}

/// The same values without their history, as the graph of a half sees them.
Tensors detached(const Tensors& tensors) {
  Tensors result;
  for (const auto& tensor : tensors)
    result.push_back(tensor.detach().requires_grad_(tensor.requires_grad() && tensor.is_floating_point()));
  return result;
}

/// The same batch with separate tensor objects. The tracer distinguishes inputs by their objects, and two
/// inputs that share an object in this batch may not share one in the next.
Batch with_tensors_of_its_own(Batch batch) {
  const auto renew = [](Tensor& tensor) {
    if (tensor.defined()) tensor = tensor.detach().requires_grad_(tensor.requires_grad());
  };
  for (Tensor* tensor : {&batch.tokens, &batch.labels, &batch.positions, &batch.input, &batch.cos, &batch.sin,
                         &batch.segments.ids, &batch.segments.cu_seqlens})
    renew(*tensor);
  for (auto& [name, tensor] : batch.named) renew(tensor);
  return batch;
}

UnitGraph::Pair trace_pair(const TracedFunctions::Entry& entry) {
  const at::NoGradGuard no_grad;
  const Differentiable& op = entry.op;
  UnitGraph::Pair pair;
  Differentiable::Result result;
  pair.forward = trace(detached(entry.inputs), [&](const Tensors& inputs) {
    result = op->forward(inputs);
    Tensors all = result.outputs;
    all.insert(all.end(), result.saved.begin(), result.saved.end());
    for (const auto& tensor : all)
      if (!tensor.defined())
        throw Error("the forward of operator '" + op->name + "' returned an undefined tensor",
                    "return defined tensors from an operator that is compiled");
    return all;
  });
  pair.outputs = static_cast<int64_t>(result.outputs.size());

  Tensors backward_inputs = detached(result.saved);
  for (const auto& output : result.outputs) backward_inputs.push_back(at::ones_like(output));
  const auto saved_end = static_cast<int64_t>(result.saved.size());
  pair.backward = trace(backward_inputs, [&](const Tensors& inputs) {
    const Tensors saved(inputs.begin(), inputs.begin() + saved_end);
    const Tensors gradients(inputs.begin() + saved_end, inputs.end());
    Tensors defined;
    pair.gradients.clear();
    for (auto& gradient : op->backward(saved, gradients)) {
      pair.gradients.push_back(gradient.defined());
      if (gradient.defined()) defined.push_back(std::move(gradient));
    }
    return defined;
  });
  return pair;
}

/// A printed graph leaves out the values of its constant tensors.
std::string text_of(const std::shared_ptr<Graph>& graph) {
  const auto canonical = torch::jit::Canonicalize(graph);
  std::string text = canonical->toString(/*print_source_locations=*/false);
  for (const auto* node : canonical->nodes()) {
    if (node->kind() != c10::prim::Constant || !node->hasAttribute(c10::attr::value) ||
        node->kindOf(c10::attr::value) != torch::jit::AttributeKind::t)
      continue;
    const Tensor constant = node->t(c10::attr::value).cpu().contiguous();
    text +=
        "# constant " +
        c10::sha1(std::string(static_cast<const char*>(constant.const_data_ptr()), constant.nbytes())).str() +
        "\n";
  }
  return text;
}

void save_graph(const std::shared_ptr<Graph>& graph, const std::filesystem::path& file) {
  torch::jit::Module module("Traced");
  const auto method = graph->copy();
  method->insertInput(0, "self")->setType(module._ivalue()->type());
  auto* function = module._ivalue()->compilation_unit()->create_function(
      c10::QualifiedName(*module.type()->name(), "forward"), method);
  module.type()->addMethod(function);
  module.save(file.string());
}

/// Compiled code would draw other random numbers than the step. Fused attention has a dropout argument, which
/// nothing uses.
void refuse_random_numbers(torch::jit::Graph& graph) {
  for (const auto* node : graph.nodes()) {
    const std::string name = node->kind().toQualString();
    if (node->isNondeterministic() && name.find("scaled_dot_product") == std::string::npos)
      throw Error("it draws random numbers (" + name + "), but compiled code would draw different ones",
                  "set the plugin's dropout to 0, or remove compile from the stack");
  }
}
}  // namespace

Tensors unit_inputs(const Unit& unit, const Tensor& x, const Batch& batch) {
  Tensors inputs = {x};
  for (const Tensor& tensor : batch.tensors())
    if (tensor.defined()) inputs.push_back(tensor);
  for (const Param* param : unit.params()) {
    if (param->codec) {
      inputs.insert(inputs.end(), param->stored.begin(), param->stored.end());
    } else {
      inputs.push_back(param->leaf);
    }
  }
  return inputs;
}

Signature signature_of(const Tensors& inputs, const Batch& batch) {
  Signature signature;
  const auto lower = autocast_type(inputs.front().device().type());
  signature.push_back(lower ? 1 + static_cast<int64_t>(*lower) : 0);
  for (const auto& tensor : inputs) {
    signature.push_back(tensor.dim() * 1000 + static_cast<int64_t>(tensor.scalar_type()) * 10 +
                        static_cast<int64_t>(tensor.requires_grad()));
    signature.insert(signature.end(), tensor.sizes().begin(), tensor.sizes().end());
    signature.insert(signature.end(), tensor.strides().begin(), tensor.strides().end());
  }
  for (const auto& tensor : batch.tensors()) signature.push_back(static_cast<int64_t>(tensor.defined()));
  for (const auto& [name, tensor] : batch.named) {
    signature.push_back(static_cast<int64_t>(name.size()));
    signature.insert(signature.end(), name.begin(), name.end());
  }
  return signature;
}

UnitGraph trace_unit(const UnitFunction& function, const Unit& unit, const Tensor& x, const Batch& of_call) {
  const at::AutoGradMode with_gradients(true);
  const NoAutocastCache no_cache;
  const TracedFunctions pairs;
  UnitGraph result;
  const Tensor start = x.detach().requires_grad_(x.requires_grad());
  const Batch batch = with_tensors_of_its_own(of_call);
  result.graph = trace(unit_inputs(unit, start, batch), [&](const Tensors& inputs) {
    result.output = function(inputs.front(), batch);
    return Tensors{result.output};
  });
  result.output = result.output.detach().requires_grad_(result.output.requires_grad());
  refuse_random_numbers(*result.graph);
  for (const auto& entry : pairs.entries()) result.pairs.push_back(trace_pair(entry));
  return result;
}

Tensor traceable_output(const UnitFunction& function, const Unit& unit, const Tensor& x, const Batch& batch) {
  const at::AutoGradMode with_gradients(true);
  const NoAutocastCache no_cache;
  const TracedFunctions pairs;
  Tensor out;
  trace(unit_inputs(unit, x, batch), [&](const Tensors& inputs) {
    out = function(inputs.front(), batch);
    return Tensors{out};
  });
  return out;
}

std::string UnitGraph::text() const {
  std::string text = text_of(graph);
  for (const auto& pair : pairs) text += text_of(pair.forward) + text_of(pair.backward);
  return text;
}

Json UnitGraph::save(const std::filesystem::path& folder) const {
  save_graph(graph, folder / "unit.pt");
  Json saved = Json::array();
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto name = "pair" + std::to_string(i);
    save_graph(pairs[i].forward, folder / (name + "_forward.pt"));
    save_graph(pairs[i].backward, folder / (name + "_backward.pt"));
    saved.push_back({{"forward", name + "_forward.pt"},
                     {"backward", name + "_backward.pt"},
                     {"outputs", pairs[i].outputs},
                     {"gradients", pairs[i].gradients}});
  }
  return saved;
}
}  // namespace optrush::compile
