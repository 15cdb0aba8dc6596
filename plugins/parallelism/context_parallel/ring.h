#pragma once
#include <cstdint>
#include <vector>

#include "optrush/differentiable.h"
#include "optrush/mesh.h"
#include "optrush/ops.h"
#include "optrush/step.h"
#include "ring_blocks.h"

namespace optrush::context_parallel {
/// Ring attention (arXiv:2310.01889): each rank keeps its queries, and keys and values travel around the
/// ring. In each of N steps a rank computes the attention of its queries to the keys that it holds, with the
/// forward of its kernel, while the next keys arrive. Outputs are merged by their log-sum-exps. In the
/// backward keys and values travel around once more, together with their gradients, which move one rank
/// further in each step and end at the rank that owns the keys.
///
/// Positions are cut in zigzag (slices.h), so under a causal mask a step needs all queries and the first half
/// of the keys, or the second half of the queries and all keys. The work is equal on all ranks. With a
/// sliding window it computes the pairs of stretches that the window reaches (ring_blocks.h). Lives as long
/// as the run.
class Ring {
 public:
  /// `args`: of the module. Its segments and lse are ignored.
  Ring(Group& ranks, const AttentionArgs& args);
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  /// Whether these arguments, except segments and lse, are those of the ring.
  bool is_for(const AttentionArgs& args) const;
  /// {out, lse} of q (B, H, S / N, K), k and v (B, G, S / N, K).
  AttentionOut operator()(const Tensor& q, const Tensor& k, const Tensor& v) const;

 private:
  /// The computation of one step with the keys and values that this rank holds.
  std::vector<Block> blocks_at(int64_t step, int64_t length) const;
  AttentionArgs args_of(const Block&) const;
  /// Sends `tensor` to the next rank, and receives the previous rank's tensor in the result.
  WorkHandle pass_on(const Tensor& tensor, Tensor& arriving) const;

  Differentiable::Result forward(const Tensors& qkv) const;
  Tensors backward(const Tensors& saved, const Tensors& gradients) const;

  Group& ranks_;
  AttentionArgs args_;
  AttentionForwardBackward halves_;
  Differentiable pair_;
};
}  // namespace optrush::context_parallel
