#include "deferred_weights.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <iterator>

#include "optrush/param.h"

namespace optrush::pipeline_parallel {
Ops::Linear::Fn DeferredWeights::linear(const Module& module) {
  const Param* weight = module.params.at(0);
  const Differentiable pair(
      {.name = "linear_with_late_weights",
       .forward = [](const Tensors& in) -> Differentiable::Result {
         return {{at::linear(in[0], in[1])}, {in[0], in[1]}};
       },
       .backward = [this, weight](const Tensors& saved, const Tensors& gradients) -> Tensors {
         const Tensor &x = saved[0], &matrix = saved[1], &gradient = gradients[0];
         if (weight->trainable) waiting_.push_back({micro_, weight, x, gradient});
         return {at::matmul(gradient, matrix), {}};
       },
       .traits =
           {.trace = Trace::opaque, .capturable = false, .offers = {feature::fp64}, .predictable = true},
       .cast = Cast::lower});
  return [pair, weight](const Tensor& x) {
    // If x needs no gradient, no rank waits for it, and the backward is not split.
    if (!x.requires_grad()) return at::linear(x, weight->compute_value());
    return call(pair, {x, weight->compute_value().detach()}).at(0);
  };
}

void DeferredWeights::run(int64_t micro) {
  const auto later = [&](const Half& half) { return half.micro != micro; };
  const auto first = std::partition(waiting_.begin(), waiting_.end(), later);
  std::vector<Half> due(std::make_move_iterator(first), std::make_move_iterator(waiting_.end()));
  waiting_.erase(first, waiting_.end());
  for (Half& half : due) {
    Tensor of_weight;
    {
      const at::NoGradGuard no_grad;
      of_weight = at::matmul(half.gradient.flatten(0, -2).t(), half.x.flatten(0, -2));
    }
    half.x.reset();
    half.gradient.reset();
    // The gradient passes the shared cast of the step, if there is one, and reaches the listener of the
    // parameter.
    half.weight->compute_value().backward(of_weight, /*retain_graph=*/true);
  }
}
}  // namespace optrush::pipeline_parallel
