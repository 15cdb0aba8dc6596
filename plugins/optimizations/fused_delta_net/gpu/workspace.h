#pragma once
#include <vector>

#include "fused_delta_net/kernels.h"
#include "optrush/tensor.h"

namespace optrush::fused::gpu {
/// The memory of DeltaRuleWorkspace, from LibTorch's allocator, so a forecast counts it.
class Workspace {
 public:
  /// For q (B, G, S, K) and v (B, H, S, V).
  static Workspace of_forward(const Tensor& q, const Tensor& v);
  static Workspace of_backward(const Tensor& q, const Tensor& v);

  double bytes() const;
  DeltaRuleWorkspace addresses() const;

 private:
  std::vector<Tensor> pieces_;  ///< in the order of DeltaRuleWorkspace
};
}  // namespace optrush::fused::gpu
