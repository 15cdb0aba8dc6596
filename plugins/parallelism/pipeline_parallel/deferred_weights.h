#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "optrush/differentiable.h"
#include "optrush/ops.h"

namespace optrush::pipeline_parallel {
/// The backward of linears in two halves (arXiv:2401.10241): the gradient of the input is part of the
/// backward; the gradient of the weight waits until the schedule has time for it. The input and the gradient
/// of the output are kept until then. Must live as long as the run.
class DeferredWeights {
 public:
  /// x Wᵀ. Replaces the plain linear.
  Ops::Linear::Fn linear(const Module&);
  /// The following backwards belong to this micro-batch.
  void begin(int64_t micro) { micro_ = micro; }
  /// Computes the weight gradients of a micro-batch and adds them.
  void run(int64_t micro);

 private:
  struct Half {
    int64_t micro;
    const Param* weight;
    Tensor x, gradient;
  };
  std::vector<Half> waiting_;
  int64_t micro_ = 0;
};
}  // namespace optrush::pipeline_parallel
