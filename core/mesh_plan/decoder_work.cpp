#include "mesh_plan/decoder_work.h"

namespace optrush {
DecoderWork::DecoderWork(const LlamaSpec& spec)
    : blocks(static_cast<double>(spec.n_layers)),
      width(static_cast<double>(spec.dim)),
      heads(static_cast<double>(spec.n_heads)),
      key_heads(static_cast<double>(spec.n_kv_heads)),
      query_width(static_cast<double>(spec.n_heads * spec.head_size())),
      key_width(static_cast<double>(spec.n_kv_heads * spec.head_size())),
      ffn_width(static_cast<double>(spec.ffn_dim)),
      embedding(static_cast<double>(spec.vocab_size * spec.dim)),
      tied(spec.tie_embeddings) {
  const double vectors = spec.norm == NormKind::rmsnorm ? 1 : spec.norm == NormKind::layernorm ? 2 : 0;
  final_norm = vectors * width;
  block_vectors = 2 * final_norm;
}

double DecoderWork::parameters() const {
  return blocks * (block_matrices() + block_vectors) + final_norm + embedding * (tied ? 1 : 2);
}

double DecoderWork::mfu_flops(double seq_len) const {
  return 6 * (blocks * block_matrices() + embedding) + 12 * blocks * query_width * seq_len;
}
}  // namespace optrush
