#pragma once
#include <functional>
#include <string>
#include <vector>

#include "optrush/tensor.h"
#include "optrush/traits.h"

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
/// node of the graph (optrush/traced_pairs.h).
Tensors call(const Differentiable& op, Tensors inputs);
}  // namespace optrush
