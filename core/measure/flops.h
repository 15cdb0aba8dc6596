#pragma once
#include <cstdint>

#include "model/model.h"
#include "optrush/param.h"

namespace optrush {
/// FLOPs of training by formula (docs/internals/measuring.md). P: matmul parameters, without the input
/// embedding unless it is tied to the output; 6 P for trained ones, 4 P for frozen ones (no weight gradient).
/// Of experts those count that a token passes.
struct ModelFlops {
  double of_a_token = 0;  ///< 6 P
  double of_a_pair = 0;   ///< of positions that attention relates, in any order: 12 L heads head_dim

  /// Of documents with so many tokens and so many pairs (AttentionPairs). Without a window a sequence of S
  /// tokens has 6 P + 12 L S heads head_dim per token.
  double all(double tokens, double pairs) const { return of_a_token * tokens + of_a_pair * pairs; }
  /// Half of the pairs: a causal mask hides the others.
  double causal(double tokens, double pairs) const { return all(tokens, pairs / 2); }
};
ModelFlops model_flops(const Model&);
}  // namespace optrush
