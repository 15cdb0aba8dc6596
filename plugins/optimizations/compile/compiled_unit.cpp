#include "compiled_unit.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <fstream>
#include <iterator>

#include "optrush/error.h"
#include "optrush/forecast.h"
#include "optrush/json.h"
#include "optrush/torch_versions/autograd_node.h"

namespace optrush::compile {
namespace {
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

/// Compiled code takes the tensors as they are: no autograd, no casts.
struct Bare {
  at::NoGradGuard no_grad;
  c10::impl::ExcludeDispatchKeyGuard no_autocast{c10::autocast_dispatch_keyset};
};

Tensors without_history(const Tensors& tensors) {
  Tensors result;
  result.reserve(tensors.size());
  for (const auto& tensor : tensors) result.push_back(tensor.detach());
  return result;
}

struct CompiledBackward final : torch::autograd::Node {
  CompiledBackward(const CompiledUnit* unit, std::vector<SavedVariable> saved)
      : unit(unit), saved(std::move(saved)) {}
  const CompiledUnit* unit;
  std::vector<SavedVariable> saved;

  variable_list apply(variable_list&& gradients) override {
    variable_list results(num_outputs());
    if (!gradients.front().defined()) return results;
    if (saved.empty())
      throw Error("the backward of a compiled unit ran twice, but its saved tensors are freed",
                  "remove the plugin 'compile' from the stack: it does not support retain_graph");
    Tensors unpacked;
    unpacked.reserve(saved.size() + 1);
    const auto self = getptr();
    for (auto& variable : saved) unpacked.push_back(variable.unpack(self).detach());
    saved.clear();  // from here on each tensor lives until its last use in the compiled code
    auto computed = unit->backward(std::move(unpacked), gradients.front());
    for (size_t i = 0; i < computed.size(); ++i)
      if (should_compute_output(i)) results[i] = std::move(computed[i]);
    return results;
  }
  void release_variables() override { saved.clear(); }
  std::string name() const override { return "CompiledUnit"; }
};

/// Some calls of compiled code pass the dispatcher, such as attention on a GPU, and some do not. The FLOPs of
/// all are noted, so none of them may count twice.
NotedKernel counted_as_one() { return {"compiled_unit", /*bytes=*/0, /*launches=*/1}; }

Json meta_of(const std::filesystem::path& folder) {
  std::ifstream in(folder / "meta.json");
  return Json::parse(std::string(std::istreambuf_iterator<char>(in), {}));
}

std::string package(const std::filesystem::path& folder) { return (folder / "unit.pt2").string(); }
}  // namespace

CompiledUnit::CompiledUnit(const std::filesystem::path& folder)
    : forward_(package(folder), "forward", /*run_single_threaded=*/true),
      backward_(package(folder), "backward", /*run_single_threaded=*/true) {
  const Json meta = meta_of(folder);
  for (const auto& saved : meta.at("saved"))
    saved_.push_back({saved.at(0) == "input", saved.at(1).get<size_t>()});
  gradients_ = meta.at("gradients").get<std::vector<bool>>();
  forward_flops_ = meta.at("flops").at("forward");
  backward_flops_ = meta.at("flops").at("backward");
}

Tensor CompiledUnit::operator()(const Tensors& inputs) const {
  Tensors outputs;
  {
    const Bare bare;
    const NotedKernel whole = counted_as_one();
    outputs = forward_.boxed_run(without_history(inputs));
  }
  note_flops(forward_flops_);
  Tensor out = outputs.front();
  if (!at::GradMode::is_enabled()) return out;
  std::vector<SavedVariable> saved;
  saved.reserve(saved_.size());
  for (const auto& [input, index] : saved_)
    saved.emplace_back(input ? inputs[index] : outputs[index], /*is_output=*/false);
  const auto node = make_autograd_node<CompiledBackward>(this, std::move(saved));
  node->set_next_edges(torch::autograd::collect_next_edges(at::TensorList(inputs)));
  torch::autograd::create_gradient_edge(out, node);
  return out;
}

Tensors CompiledUnit::backward(Tensors saved, const Tensor& gradient) const {
  const Bare bare;
  saved.push_back(gradient.detach().contiguous());
  Tensors computed;
  {
    const NotedKernel whole = counted_as_one();
    computed = backward_.boxed_run(std::move(saved));
  }
  note_flops(backward_flops_);
  Tensors results(gradients_.size());
  size_t next = 0;
  for (size_t i = 0; i < gradients_.size(); ++i)
    if (gradients_[i]) results[i] = std::move(computed[next++]);
  return results;
}
}  // namespace optrush::compile
