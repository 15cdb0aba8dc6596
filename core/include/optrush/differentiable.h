#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "optrush/edit.h"
#include "optrush/tensor.h"

namespace optrush {
/// Treatment of the floating-point inputs under autocast, which knows only the operators of ATen.
enum class Cast : uint8_t { keep, lower, fp32 };

/// A custom autograd function: a forward and a backward, instead of a torch::autograd::Function. Eager
/// training, compilation, recomputation and gradient checks use the same two functions. Copies share one
/// definition, which lives as long as a copy or a graph that has called it.
class Differentiable {
 public:
  struct Result {
    Tensors outputs;
    Tensors saved;  ///< tensors for the backward: inputs, outputs or others
  };
  struct Definition {
    std::string name;
    std::function<Result(const Tensors& inputs)> forward;
    /// One gradient for each input; undefined: none. Not all of `output_gradients` are undefined.
    std::function<Tensors(const Tensors& saved, const Tensors& output_gradients)> backward;
    Traits traits = {.trace = Trace::pair};
    Cast cast = Cast::keep;
  };

  Differentiable() = default;            ///< to be assigned before the first call
  Differentiable(Definition definition)  // NOLINT(google-explicit-constructor): a definition is an operator
      : definition_(std::make_shared<const Definition>(std::move(definition))) {}
  const Definition* operator->() const { return definition_.get(); }
  /// Whether both are copies of one operator.
  bool operator==(const Differentiable&) const = default;

 private:
  std::shared_ptr<const Definition> definition_;
};

/// Calls the operator with autograd. Under a tracer it becomes one node of the graph (TracedFunctions).
Tensors call(const Differentiable& op, Tensors inputs);

/// The Differentiable operators that a traced function calls. It exists on one thread during a trace. Each
/// `call` is then a node `optrush::call(str pair, Tensor[] inputs) -> Tensor[]`, where `pair` is the index of
/// an entry. Forward and backward are traced separately, so that a compiler keeps the custom backward.
class TracedFunctions {
 public:
  struct Entry {
    Differentiable op;
    Tensors inputs;  ///< inputs of this call
  };
  TracedFunctions();
  ~TracedFunctions();
  TracedFunctions(const TracedFunctions&) = delete;
  TracedFunctions& operator=(const TracedFunctions&) = delete;
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  friend Tensors call(const Differentiable&, Tensors);
  std::vector<Entry> entries_;
  TracedFunctions* outer_;
};

/// Settings of a comparison of gradients with central differences.
struct GradientCheck {
  double step = 1e-5;
  double tolerance = 1e-6;  ///< relative to the largest difference quotient of an input, or to 1
  int64_t elements = 0;     ///< maximum number of elements to check per input, evenly spread; 0: all
};

/// Compares the gradients that autograd computes for `function` with central differences, for each input that
/// requires a gradient. The outputs are weighted by random directions. Returns "" if they agree, otherwise
/// the wrong input and both values. Throws an Error if an input is not fp64, because differences are too
/// inexact in other types. Leaves the inputs unchanged, with empty `grad`.
std::string wrong_gradient(const std::function<Tensors(const Tensors&)>& function, const Tensors& inputs,
                           const GradientCheck& = {});
}  // namespace optrush
