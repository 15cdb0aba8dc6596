#pragma once
#include <cstdint>
#include <vector>

#include "optrush/differentiable.h"
#include "optrush/mesh.h"
#include "optrush/ops.h"

namespace optrush::tensor_parallel {
/// A part of the model in which each rank computes with its own cut of the matrices. What it takes in is the
/// same on every rank, and what a rank makes is a summand of what comes out (f and g of arXiv:1909.08053). In
/// parts of the sequence, ranks keep (B, S / ranks, D) each outside of regions (arXiv:2205.05198). Lives as
/// long as the run.
class Region {
 public:
  Region(Group& ranks, bool by_sequence);
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  /// x on every rank. The backward sums the ranks' gradients of it.
  Tensor enter(const Tensor& x) const { return call(enter_, {x}).at(0); }
  /// The sum of the ranks' parts. The backward passes its gradient to each rank.
  Tensor leave(const Tensor& part) const { return call(leave_, {part}).at(0); }
  /// leave(linear(x)), in chunks of positions: the sum of one chunk runs while the next is computed. Not with
  /// parts of the sequence.
  Tensor leave_in_parts(const Ops::Linear::Fn& linear, const Tensor& x, int64_t parts) const;

 private:
  Differentiable enter_, leave_, start_leaving_;
  mutable std::vector<WorkHandle> under_way_;  ///< of the present leave_in_parts
};
}  // namespace optrush::tensor_parallel
