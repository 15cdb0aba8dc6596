#pragma once
#include <torch/csrc/jit/ir/ir.h>

#include <memory>
#include <string>
#include <vector>

#include "optrush/json.h"
#include "optrush/unit.h"

namespace optrush::compile {
/// Every tensor that a call of a unit reads: x, the tensors of the batch, the tensors behind its parameters.
/// The order is that of the graph's inputs.
Tensors unit_inputs(const Unit&, const Tensor& x, const Batch&);

/// What two calls must share to run the same code: sizes, strides, types, requires_grad, autocast, and which
/// tensors a batch has, by place and by name.
using Signature = std::vector<int64_t>;
Signature signature_of(const Tensors& inputs, const Batch& = {});

/// A unit as the tracer saw it, plugins and pairs included.
struct UnitGraph {
  struct Pair {
    std::shared_ptr<torch::jit::Graph> forward, backward;
    int64_t outputs = 0;          ///< of the forward, before what it saves
    std::vector<bool> gradients;  ///< which inputs get one
  };
  std::shared_ptr<torch::jit::Graph> graph;
  std::vector<Pair> pairs;  ///< by the index in the graph's optrush::call nodes
  Tensor output;            ///< of the traced call, without its history; requires_grad as with it

  /// The same for units that compile to the same code.
  std::string text() const;
  /// unit.pt and the halves of the pairs, as TorchScript; returns what a reader has to know of the pairs.
  Json save(const std::filesystem::path& folder) const;
};

/// Runs `function` once under the tracer. Throws where it can't be traced.
UnitGraph trace_unit(const UnitFunction& function, const Unit&, const Tensor& x, const Batch&);

/// The output of `function` in the form that a tracer sees, with its history: what compiled code has to
/// equal. Outside a tracer, techniques that compute again may add gradients to parameters on their own.
Tensor traceable_output(const UnitFunction& function, const Unit&, const Tensor& x, const Batch&);
}  // namespace optrush::compile
