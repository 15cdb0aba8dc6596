#include "checkpoint/llama_parameters.h"

namespace optrush {
std::vector<NamedShape> llama_parameters(const LlamaSpec& spec) {
  std::vector<NamedShape> all;
  const auto norm = [&](const std::string& path) {
    if (spec.norm != NormKind::layernorm_without_parameters) all.push_back({path + ".weight", {spec.dim}});
    if (spec.norm == NormKind::layernorm) all.push_back({path + ".bias", {spec.dim}});
  };
  const auto matrix = [&](const std::string& path, int64_t out, int64_t in) {
    all.push_back({path + ".weight", {out, in}});
  };
  const int64_t queries = spec.n_heads * spec.head_size(), keys = spec.n_kv_heads * spec.head_size();
  matrix("model.embed_tokens", spec.vocab_size, spec.dim);
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    const std::string path = "model.layers." + std::to_string(layer);
    norm(path + ".input_layernorm");
    norm(path + ".post_attention_layernorm");
    matrix(path + ".self_attn.q_proj", queries, spec.dim);
    matrix(path + ".self_attn.k_proj", keys, spec.dim);
    matrix(path + ".self_attn.v_proj", keys, spec.dim);
    matrix(path + ".self_attn.o_proj", spec.dim, queries);
    matrix(path + ".mlp.gate_proj", spec.ffn_dim, spec.dim);
    matrix(path + ".mlp.up_proj", spec.ffn_dim, spec.dim);
    matrix(path + ".mlp.down_proj", spec.dim, spec.ffn_dim);
  }
  norm("model.norm");
  if (!spec.tie_embeddings) matrix("lm_head", spec.vocab_size, spec.dim);
  return all;
}
}  // namespace optrush
