#pragma once
#include "optrush/tensor.h"

namespace optrush::plain {
/// Inputs of the gated delta rule. B batch, G heads of keys, H heads of values, S sequence, K width of a key,
/// V width of a value.
struct DeltaRule {
  Tensor q, k;             ///< (B, G, S, K), not normalized
  Tensor v;                ///< (B, H, S, V)
  Tensor log_decay, beta;  ///< (B, H, S), in accumulate_type(v): logarithm of alpha, and the step size
  Tensor documents = {};   ///< (B, S): Segments::ids; undefined: each row is one document
};

/// The gated delta rule (arXiv:2412.06464, equation 10), with queries and keys of length 1 and queries times
/// K^(-1/2): S_t = alpha_t (I - beta_t k_t k_t^T) S_(t-1) + beta_t k_t v_t^T and o_t = S_t^T q_t, with S = 0
/// before each document. It computes `chunk` positions at a time, in accumulate_type(v) also under autocast.
/// Returns (B, H, S, V) in v's type.
Tensor gated_delta_rule(const DeltaRule&, int64_t chunk = 64);

/// For each channel, the sum over the last positions of a document, weighted: x (B, S, C), weight (C, 1,
/// positions), `documents` as above.
Tensor causal_convolution(const Tensor& x, const Tensor& weight, const Tensor& documents);
}  // namespace optrush::plain
