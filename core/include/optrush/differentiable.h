#pragma once
#include <functional>
#include <string>
#include <vector>

#include "optrush/slot.h"
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
/// node of the graph, which TracedPairs names.
Tensors call(const Differentiable& op, Tensors inputs);

/// What a tracer has to know of the pairs that the traced function calls. Lives on one thread around a trace:
/// each `call` is then a node `optrush::call(str pair, Tensor[] inputs) -> Tensor[]`, where `pair` is the
/// index of an entry. The halves are traced apart, so that a compiler keeps the backward that was written.
class TracedPairs {
 public:
  struct Entry {
    const Differentiable* op = nullptr;
    Tensors inputs;  ///< of this call
  };
  TracedPairs();
  ~TracedPairs();
  TracedPairs(const TracedPairs&) = delete;
  TracedPairs& operator=(const TracedPairs&) = delete;
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  friend Tensors call(const Differentiable&, Tensors);
  std::vector<Entry> entries_;
  TracedPairs* outer_;
};
}  // namespace optrush
