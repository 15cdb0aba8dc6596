#pragma once
#include "optrush/differentiable.h"
#include "optrush/mesh.h"
#include "optrush/ops.h"

namespace optrush::expert_parallel {
/// Rows of a mixture on their way to the ranks that have their experts, and back, by two all-to-alls of
/// unequal parts; before them the ranks tell each other how many rows come (GShard, arXiv:2006.16668; without
/// dropped tokens, arXiv:2211.15841). The backward sends the gradients the other way. R ranks, each with L of
/// E experts in their order. Lives as long as the run.
class ExpertExchange {
 public:
  explicit ExpertExchange(Group& ranks);
  ExpertExchange(const ExpertExchange&) = delete;
  ExpertExchange& operator=(const ExpertExchange&) = delete;

  /// `rows` (N, D) by experts, `counts` (E): what they are behind `experts` (the L of this rank).
  Tensor operator()(const Ops::Experts::Fn& experts, const Tensor& rows, const Tensor& counts,
                    const Batch&) const;

  /// Rows that this rank's experts computed so far.
  double computed_rows() const { return computed_rows_; }

 private:
  Group& ranks_;
  Differentiable send_;
  mutable double computed_rows_ = 0;
};
}  // namespace optrush::expert_parallel
