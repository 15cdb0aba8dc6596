#pragma once
#include <functional>
#include <vector>

#include "optrush/differentiable.h"
#include "optrush/mesh.h"
#include "optrush/ops.h"

namespace optrush::expert_parallel {
/// Rows that are sent.
struct UnderWay {
  WorkHandle work;
  Tensor arriving;  ///< in their place, once the work is done
};

/// Rows of a mixture on their way to the ranks that have their experts, and back, by two all-to-alls of
/// unequal parts; before them the ranks tell each other how many rows come (GShard, arXiv:2006.16668; without
/// dropped tokens, arXiv:2211.15841). The backward sends the gradients the other way. What is computed while
/// rows are on their way in the forward has its backward while their gradients are on theirs. R ranks, each
/// with L of E experts in their order. Lives as long as the run.
class ExpertExchange {
 public:
  explicit ExpertExchange(Group& ranks);
  ExpertExchange(const ExpertExchange&) = delete;
  ExpertExchange& operator=(const ExpertExchange&) = delete;

  /// `rows` (N, D) by experts, `counts` (E): what they are behind `experts` (the L of this rank). `meanwhile`
  /// is called while the rows are on their way to their experts.
  Tensor operator()(
      const Ops::Experts::Fn& experts, const Tensor& rows, const Tensor& counts, const Batch&,
      const std::function<void()>& meanwhile = [] {}) const;

  /// Rows that this rank's experts computed so far.
  double computed_rows() const { return computed_rows_; }

 private:
  Tensor exchanged(const Tensor& rows, const Tensor& sizes, const std::function<void()>& meanwhile) const;

  Group& ranks_;
  Differentiable start_, finish_;  ///< of an exchange; in the backward each does the work of the other
  mutable std::vector<UnderWay> under_way_;
  mutable double computed_rows_ = 0;
};
}  // namespace optrush::expert_parallel
