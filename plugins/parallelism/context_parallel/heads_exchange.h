#pragma once
#include "optrush/differentiable.h"
#include "optrush/mesh.h"

namespace optrush::context_parallel {
/// Converts between all heads of a part of the sequence and some heads of the whole sequence, by one
/// all-to-all (DeepSpeed-Ulysses, arXiv:2309.14509). N ranks; H, the number of heads, is a multiple of N.
/// Lives as long as the run.
class HeadsExchange {
 public:
  explicit HeadsExchange(Group& ranks);
  HeadsExchange(const HeadsExchange&) = delete;
  HeadsExchange& operator=(const HeadsExchange&) = delete;

  /// (B, H, S / N, K) to (B, H / N, S, K).
  Tensor whole_sequence(const Tensor& x) const { return call(whole_sequence_, {x}).at(0); }
  /// (B, H / N, S, K) to (B, H, S / N, K).
  Tensor all_heads(const Tensor& x) const { return call(all_heads_, {x}).at(0); }

 private:
  Differentiable whole_sequence_, all_heads_;
};
}  // namespace optrush::context_parallel
