#pragma once
#include <cstdint>
#include <vector>

#include "optrush/differentiable.h"
#include "optrush/mesh.h"
#include "optrush/ops.h"
#include "optrush/step.h"
#include "ring_blocks.h"

namespace optrush::context_parallel {
/// Ring attention (arXiv:2310.01889): queries stay, keys and values go around. At each of N steps a rank
/// computes attention of its queries to the keys that are there, by the forward half of its kernel, while the
/// next ones arrive; outputs are merged by their log-sum-exps. The backward goes around once more, and the
/// gradients of keys and values go with them, one rank further at each step until they are home.
///
/// Positions are cut in zigzag (slices.h), so under a causal mask a step needs all queries and the first half
/// of the keys, or the second half of the queries and all keys: as much work on each rank. With a sliding
/// window it computes the pairs of stretches that the window reaches (ring_blocks.h). Lives as long as the
/// run.
class Ring {
 public:
  /// `args` of the module; its segments and lse are not looked at.
  Ring(Group& ranks, const AttentionArgs& args);
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  /// {out, lse} of q (B, H, S / N, K), k and v (B, G, S / N, K). The lse has no derivative.
  AttentionOut operator()(const Tensor& q, const Tensor& k, const Tensor& v) const;

 private:
  /// The computation of a step with the keys and values that are here.
  std::vector<Block> blocks_at(int64_t step, int64_t length) const;
  AttentionArgs args_of(const Block&) const;
  /// Sends `tensor` to the next rank, and receives the previous rank's tensor in the result.
  WorkHandle pass_on(const Tensor& tensor, Tensor& arriving) const;

  Differentiable::Result forward(const Tensors& qkv) const;
  Tensors backward(const Tensors& saved, const Tensor& gradient) const;

  Group& ranks_;
  AttentionArgs args_;
  AttentionForwardBackward halves_;
  Differentiable pair_;
};
}  // namespace optrush::context_parallel
