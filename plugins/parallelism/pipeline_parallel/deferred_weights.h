#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "optrush/differentiable.h"
#include "optrush/ops.h"

namespace optrush::pipeline_parallel {
/// The backward of linears in two halves (arXiv:2401.10241): that of their input is part of the backward,
/// that of their weight waits until a schedule has time for it. What it takes, the input and the gradient of
/// the output, is kept until then. Lives as long as the run.
class DeferredWeights {
 public:
  /// x Wᵀ, in place of the plain linear.
  Ops::Linear::Fn linear(const Module&);
  /// From here on backwards are those of this micro-batch.
  void begin(int64_t micro) { micro_ = micro; }
  /// Adds a micro-batch's gradients to those of the weights.
  void run(int64_t micro);

 private:
  struct Half {
    int64_t micro;
    const Param* weight;
    Tensor x, gradient;
  };
  std::deque<Differentiable> pairs_;
  std::vector<Half> waiting_;
  int64_t micro_ = 0;
};
}  // namespace optrush::pipeline_parallel
