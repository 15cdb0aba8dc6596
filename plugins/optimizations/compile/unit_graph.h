#pragma once
#include <torch/csrc/jit/ir/ir.h>

#include <memory>
#include <string>
#include <vector>

#include "optrush/json.h"
#include "optrush/unit.h"

namespace optrush::compile {
/// Every tensor that a call of a unit reads: x, the tensors of the batch, the tensors behind its parameters.
/// They have the order of the graph's inputs.
Tensors unit_inputs(const Unit&, const Tensor& x, const Batch&);

/// Equal for two calls that can run the same code: sizes, strides, types, requires_grad, autocast, and which
/// tensors a batch has, by place and by name.
using Signature = std::vector<int64_t>;
Signature signature_of(const Tensors& inputs, const Batch& = {});

/// The trace of a unit, including the edits of plugins and the pairs.
struct UnitGraph {
  struct Pair {
    std::shared_ptr<torch::jit::Graph> forward, backward;
    int64_t outputs = 0;          ///< of the forward, without saved tensors
    std::vector<bool> gradients;  ///< which inputs get one
  };
  std::shared_ptr<torch::jit::Graph> graph;
  std::vector<Pair> pairs;  ///< by the index in the graph's optrush::call nodes
  Tensor output;            ///< of the traced call, without its history, but with its requires_grad

  /// Equal for units that compile to the same code.
  std::string text() const;
  /// unit.pt and the halves of the pairs, as TorchScript; returns the description of the pairs that a reader
  /// needs.
  Json save(const std::filesystem::path& folder) const;
};

/// Runs `function` once under the tracer. Throws if it cannot be traced.
UnitGraph trace_unit(const UnitFunction& function, const Unit&, const Tensor& x, const Batch&);

/// The output of `function` in the form that a tracer sees, with its history. Compiled code must equal it.
/// Outside a tracer, techniques that recompute may add gradients to parameters directly.
Tensor traceable_output(const UnitFunction& function, const Unit&, const Tensor& x, const Batch&);
}  // namespace optrush::compile
