#pragma once
#include <array>
#include <functional>

#include "optrush/batch.h"

namespace optrush {
struct AttentionHalves;

struct AttentionArgs {
  bool causal = true;
  double scale = 1;        ///< of the scores, before the softmax
  bool lse = false;        ///< also give the log-sum-exp of the scores; only from a base that offers "lse"
  Segments segments = {};  ///< of the batch; only for a base that offers "segments"
  /// The same kernel in two halves, as resolved at this site. Null where the caller has none.
  const AttentionHalves* halves = nullptr;
};

struct AttentionOut {
  Tensor out;  ///< (B, H, S, K)
  Tensor lse;  ///< (B, H, S) fp32, for fp64 inputs fp64; natural logarithm; where asked for
};

/// Attention without autograd, in halves that a caller combines: a ring computes one part of the keys after
/// the other, merges the outputs by their log-sum-exps, and gives the merged ones to the backward of each
/// part (arXiv:2310.01889).
struct AttentionHalves {
  /// Both members of the result are set. Queries and keys may differ in length where it is not causal.
  std::function<AttentionOut(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs&)>
      forward;
  /// {dq, dk, dv} of this part, where `out` and `lse` are those of the whole row of keys.
  std::function<std::array<Tensor, 3>(const Tensor& gradient, const Tensor& q, const Tensor& k,
                                      const Tensor& v, const Tensor& out, const Tensor& lse,
                                      const AttentionArgs&)>
      backward;
};
}  // namespace optrush
