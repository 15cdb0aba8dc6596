#pragma once
#include <cstdint>
#include <vector>

#include "optrush/differentiable.h"
#include "optrush/mesh.h"
#include "optrush/ops.h"

namespace optrush::tensor_parallel {
/// A part of the model in which each rank computes with its own cut of the matrices. Its input is the same on
/// every rank, and each rank computes a summand of its output (f and g of arXiv:1909.08053). With parts of
/// the sequence, each rank keeps (B, S / ranks, D) outside of regions (arXiv:2205.05198). Lives as long as
/// the run.
class Region {
 public:
  Region(Group& ranks, bool by_sequence);
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  /// Returns x on every rank. The backward sums the ranks' gradients of x.
  Tensor enter(const Tensor& x) const { return call(enter_, {x}).at(0); }
  /// Returns the sum of the ranks' summands. The backward passes its gradient to each rank.
  Tensor leave(const Tensor& part) const { return call(leave_, {part}).at(0); }
  /// leave(linear(x)), in chunks of positions: the sum of one chunk runs while the next is computed. Does not
  /// support parts of the sequence.
  Tensor leave_in_parts(const Ops::Linear::Fn& linear, const Tensor& x, int64_t parts) const;

 private:
  Differentiable enter_, leave_, start_leaving_;
  mutable std::vector<WorkHandle> under_way_;  ///< of the present leave_in_parts
};
}  // namespace optrush::tensor_parallel
