#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "optrush/edit.h"
#include "optrush/tensor.h"

namespace optrush {
/// What autocast does to the floating-point inputs: it knows ATen's names only, so an operator of one's own
/// says.
enum class Cast : uint8_t { keep, lower, fp32 };

/// A custom derivative as data: a forward and a backward instead of a torch::autograd::Function. Eager
/// training, a compiler, recomputation and the tests' gradcheck all read the same two functions.
struct Differentiable {
  struct Result {
    Tensors outputs;
    Tensors saved;  ///< what the backward needs: inputs, outputs or others
  };
  std::string name;
  std::function<Result(const Tensors& inputs)> forward;
  /// One gradient for each input, undefined where there is none. So may those of outputs be, but not all.
  std::function<Tensors(const Tensors& saved, const Tensors& output_gradients)> backward;
  Traits traits = {.trace = Trace::pair};
  Cast cast = Cast::keep;
};

/// Calls it under autograd. `op` must outlive the run: keep it in the plugin. Under a tracer it becomes one
/// node of the graph (TracedFunctions).
Tensors call(const Differentiable& op, Tensors inputs);

/// What a tracer has to know of the pairs that the traced function calls. Lives on one thread around a trace:
/// each `call` is then a node `optrush::call(str pair, Tensor[] inputs) -> Tensor[]`, where `pair` is the
/// index of an entry. The halves are traced apart, so that a compiler keeps the backward that was written.
class TracedFunctions {
 public:
  struct Entry {
    const Differentiable* op = nullptr;
    Tensors inputs;  ///< of this call
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

/// How gradients are held against central differences.
struct GradientCheck {
  double step = 1e-5;
  double tolerance = 1e-6;  ///< of the largest difference quotient of an input, or of 1
  int64_t elements = 0;     ///< at most so many of each input, spread over it; 0: every one
};

/// Holds the gradients that autograd gives for `function` against central differences of it, for each input
/// that requires a gradient; the outputs are weighted by random directions. Returns "" where they agree, else
/// which input is wrong and both values. Inputs must be fp64, where differences mean something: an Error
/// otherwise. Leaves the inputs as they were, their `grad` empty.
std::string wrong_gradient(const std::function<Tensors(const Tensors&)>& function, const Tensors& inputs,
                           const GradientCheck& = {});
}  // namespace optrush
