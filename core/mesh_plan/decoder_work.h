#pragma once
#include "optrush/spec.h"

namespace optrush {
/// What the parts of a decoder weigh and compute, from its dimensions alone (core/model/llama.cpp declares
/// the same). Numbers of parameters; FLOPs are of one token's forward, two for a multiplication and addition.
struct DecoderWork {
  double blocks = 0, width = 0, heads = 0, key_heads = 0;
  double query_width = 0, key_width = 0;  ///< heads, key and value heads, times the size of a head
  double ffn_width = 0;
  double block_vectors = 0, final_norm = 0;  ///< of norms
  double embedding = 0;                      ///< vocabulary times width; the head's matrix has as many
  bool tied = false;                         ///< the head's matrix is the embedding

  explicit DecoderWork(const LlamaSpec&);

  double block_matrices() const { return width * (2 * query_width + 2 * key_width + 3 * ffn_width); }
  double parameters() const;
  double block_products() const { return 2 * block_matrices(); }
  /// Causal: each position needs half of the sequence, in two products.
  double block_attention(double seq_len) const { return 2 * query_width * seq_len; }
  double head_products() const { return 2 * embedding; }
  /// FLOPs of a token that the project's `mfu` counts: 6 P + 12 L S heads head_dim.
  double mfu_flops(double seq_len) const;
};
}  // namespace optrush
