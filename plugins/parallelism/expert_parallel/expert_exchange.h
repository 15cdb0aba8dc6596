#pragma once
#include <functional>
#include <vector>

#include "optrush/differentiable.h"
#include "optrush/mesh.h"
#include "optrush/ops.h"

namespace optrush::expert_parallel {
/// Rows in transit.
struct UnderWay {
  WorkHandle work;
  Tensor arriving;  ///< valid when `work` is done
};

/// Sends the rows of a mixture to the ranks that have their experts, and sends the results back, by two
/// all-to-alls of unequal parts. Before that, the ranks exchange the numbers of rows (GShard,
/// arXiv:2006.16668; without dropped tokens, arXiv:2211.15841). The backward sends the gradients in the
/// opposite direction. An operator that is computed while rows are in transit has its backward while their
/// gradients are in transit. There are R ranks; each has L of the E experts, in order. Lives as long as the
/// run.
class ExpertExchange {
 public:
  explicit ExpertExchange(Group& ranks);
  ExpertExchange(const ExpertExchange&) = delete;
  ExpertExchange& operator=(const ExpertExchange&) = delete;

  /// Returns the results of the experts for `rows` (N, D), which are sorted by expert; `counts` (E): rows of
  /// each expert. `experts` computes the L experts of this rank. `meanwhile` is called while the rows are in
  /// transit to their experts.
  Tensor operator()(
      const Ops::Experts::Fn& experts, const Tensor& rows, const Tensor& counts, const Batch&,
      const std::function<void()>& meanwhile = [] {}) const;

  /// Rows that this rank's experts computed so far.
  double computed_rows() const { return computed_rows_; }

 private:
  Tensor exchanged(const Tensor& rows, const Tensor& sizes, const std::function<void()>& meanwhile) const;

  Group& ranks_;
  Differentiable start_, finish_;  ///< the backward of one does the work of the other's forward
  mutable std::vector<UnderWay> under_way_;
  mutable double computed_rows_ = 0;
};
}  // namespace optrush::expert_parallel
