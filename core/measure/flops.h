#pragma once
#include "model/model.h"
#include "optrush/param.h"

namespace optrush {
/// FLOPs of training by formula (docs/internals/measuring.md). P is the number of parameters in matrix
/// products, without the input embedding unless it is tied to the output. Trained parameters cost 6 P, frozen
/// ones 4 P (no weight gradient). Of a mixture, only the experts that a token passes count.
struct ModelFlops {
  double of_a_token = 0;  ///< 6 P
  double of_a_pair = 0;   ///< per pair of positions that attention relates: 12 L heads head_dim

  /// FLOPs of `tokens` tokens with `pairs` pairs (AttentionPairs). Without a window, a sequence of S tokens
  /// costs 6 P + 12 L S heads head_dim per token.
  double all(double tokens, double pairs) const { return of_a_token * tokens + of_a_pair * pairs; }
  /// The same with half of the pairs, because a causal mask hides the others.
  double causal(double tokens, double pairs) const { return all(tokens, pairs / 2); }
};
ModelFlops model_flops(const Model&);
}  // namespace optrush
