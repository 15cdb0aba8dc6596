#include <utility>

#include "checkpoint/checkpoint_files.h"

namespace optrush {
namespace {
class Shapes {
 public:
  explicit Shapes(const LlamaSpec& spec) : spec_(spec) {}

  void norm(const std::string& path) {
    if (spec_.norm != NormKind::layernorm_without_parameters) vector(path + ".weight", spec_.dim);
    if (spec_.norm == NormKind::layernorm) vector(path + ".bias", spec_.dim);
  }
  void matrix(const std::string& path, int64_t out, int64_t in, bool biased = false) {
    all_.push_back({path + ".weight", {out, in}});
    if (biased) vector(path + ".bias", out);
  }
  void latent_attention(const std::string& path) {
    const auto& [kv_rank, q_rank, rope_dim, value_dim, interleaved] = spec_.latent;
    const int64_t heads = spec_.n_heads, width = heads * spec_.head_size();
    const bool biased = spec_.attention_bias == AttentionBias::all;
    if (q_rank != 0) {
      matrix(path + ".q_a_proj", q_rank, spec_.dim, biased);
      vector(path + ".q_a_layernorm.weight", q_rank);
    }
    matrix(path + (q_rank != 0 ? ".q_b_proj" : ".q_proj"), width, q_rank != 0 ? q_rank : spec_.dim);
    matrix(path + ".kv_a_proj_with_mqa", kv_rank + rope_dim, spec_.dim, biased);
    vector(path + ".kv_a_layernorm.weight", kv_rank);
    matrix(path + ".kv_b_proj", width + heads * (value_dim - rope_dim), kv_rank);
    matrix(path + ".o_proj", spec_.dim, heads * value_dim, biased);
  }
  void delta_net(const std::string& path) {
    const auto& [key_heads, value_heads, key_dim, value_dim, kernel, joined] = spec_.delta_net;
    const int64_t values = value_heads * value_dim, channels = 2 * key_heads * key_dim + values;
    if (joined) {
      matrix(path + ".in_proj_qkvz", channels + values, spec_.dim);
      matrix(path + ".in_proj_ba", 2 * value_heads, spec_.dim);
    } else {
      matrix(path + ".in_proj_qkv", channels, spec_.dim);
      matrix(path + ".in_proj_z", values, spec_.dim);
      for (const char* gates : {".in_proj_b", ".in_proj_a"}) matrix(path + gates, value_heads, spec_.dim);
    }
    all_.push_back({path + ".conv1d.weight", {channels, 1, kernel}});
    for (const char* gate : {".A_log", ".dt_bias"}) vector(path + gate, value_heads);
    vector(path + ".norm.weight", value_dim);
    matrix(path + ".out_proj", spec_.dim, values);
  }
  void mamba(const std::string& path) {
    const Mamba2& shape = spec_.mamba;
    const int64_t values = shape.values(), channels = shape.channels();
    matrix(path + ".in_proj", values + channels + shape.heads, spec_.dim, shape.projection_bias);
    all_.push_back({path + ".conv1d.weight", {channels, 1, shape.kernel}});
    if (shape.convolution_bias) vector(path + ".conv1d.bias", channels);
    for (const char* of_heads : {".A_log", ".dt_bias", ".D"}) vector(path + of_heads, shape.heads);
    vector(path + ".norm.weight", values);
    matrix(path + ".out_proj", spec_.dim, values, shape.projection_bias);
  }
  void mixer(const std::string& block, int64_t layer) {
    if (!spec_.has_linear_attention(layer)) return attention(block + ".self_attn", layer);
    spec_.has_mamba() ? mamba(block + ".mamba") : delta_net(block + ".linear_attn");
  }
  void attention(const std::string& path, int64_t layer) {
    if (spec_.has_latents()) return latent_attention(path);
    if (spec_.attention_sinks) vector(path + ".sinks", spec_.n_heads);
    const int64_t head_dim = spec_.head_size(layer);
    const int64_t queries = spec_.n_heads * head_dim, keys = spec_.kv_heads(layer) * head_dim;
    const bool biased = spec_.attention_bias != AttentionBias::none;
    matrix(path + ".q_proj", spec_.attention_gate ? 2 * queries : queries, spec_.dim, biased);
    const bool own_keys = spec_.kv_layer(layer) == layer;
    if (own_keys) matrix(path + ".k_proj", keys, spec_.dim, biased);
    if (own_keys && !spec_.keys_as_values(layer)) matrix(path + ".v_proj", keys, spec_.dim, biased);
    matrix(path + ".o_proj", spec_.dim, queries, spec_.attention_bias == AttentionBias::all);
    if (spec_.qk_norm == QkNorm::none) return;
    const bool per_head = spec_.qk_norm == QkNorm::per_head;
    vector(path + ".q_norm.weight", per_head ? head_dim : queries);
    if (own_keys) vector(path + ".k_norm.weight", per_head ? head_dim : keys);
  }
  void mlp(const std::string& path, int64_t ffn_dim, bool biased = false) {
    if (spec_.has_gate()) matrix(path + ".gate_proj", ffn_dim, spec_.dim, biased);
    matrix(path + ".up_proj", ffn_dim, spec_.dim, biased);
    matrix(path + ".down_proj", spec_.dim, ffn_dim, biased);
  }
  void experts_beside_mlp(const std::string& block, int64_t layer) {
    mlp(block + ".mlp", spec_.mlp_width(layer));
    matrix(block + ".gate.proj", spec_.n_experts, spec_.dim);
    vector(block + ".gate.scale", spec_.dim);
    vector(block + ".gate.per_expert_scale", spec_.n_experts);
    for (const char* norm :
         {"pre_feedforward_layernorm_2", "post_feedforward_layernorm_1", "post_feedforward_layernorm_2"})
      vector(block + "." + norm + ".weight", spec_.dim);
    each_expert(block);
  }
  void each_expert(const std::string& path) {
    for (int64_t expert = 0; expert < spec_.n_experts; ++expert)
      mlp(path + ".experts." + std::to_string(expert),
          spec_.expert_ffn_dim != 0 ? spec_.expert_ffn_dim : spec_.ffn_dim, spec_.expert_bias);
  }
  void experts(const std::string& path) {
    matrix(path + ".gate", spec_.n_experts, spec_.dim, spec_.router.bias == RouterBias::logits);
    if (spec_.router.bias == RouterBias::choice)
      vector(path + ".gate.e_score_correction_bias", spec_.n_experts);
    each_expert(path);
    if (spec_.shared_expert_ffn_dim == 0) return;
    mlp(path + ".shared_expert", spec_.shared_expert_ffn_dim, spec_.expert_bias);
    if (spec_.shared_expert_gate) matrix(path + ".shared_expert_gate", 1, spec_.dim);
  }
  void block(int64_t layer) {
    const std::string path = "model.layers." + std::to_string(layer);
    const bool before = spec_.norm_placement != NormPlacement::after;
    const bool after = spec_.norm_placement != NormPlacement::before;
    if (before) norm(path + ".input_layernorm");
    if (!spec_.has_mlp(layer)) return mixer(path, layer);
    norm(path + ".post_attention_layernorm");
    if (before && after) norm(path + ".pre_feedforward_layernorm");
    mixer(path, layer);
    if (!spec_.has_experts(layer))
      mlp(path + ".mlp", spec_.mlp_width(layer));
    else
      spec_.experts_beside_mlp ? experts_beside_mlp(path, layer) : experts(path + ".mlp");
    if (after) norm(path + ".post_feedforward_layernorm");
    if (const int64_t width = spec_.per_layer_input_dim; width != 0) {
      matrix(path + ".per_layer_input_gate", width, spec_.dim);
      matrix(path + ".per_layer_projection", spec_.dim, width);
      vector(path + ".post_per_layer_input_norm.weight", spec_.dim);
    }
    if (spec_.layer_scale) vector(path + ".layer_scalar", 1);
  }
  void per_layer_inputs() {
    const int64_t width = spec_.per_layer_input_dim, all = spec_.n_layers * width;
    if (width == 0) return;
    matrix("model.embed_tokens_per_layer", spec_.per_layer_vocab(), all);
    matrix("model.per_layer_model_projection", all, spec_.dim);
    vector("model.per_layer_projection_norm.weight", width);
  }
  std::vector<NamedShape> take() { return std::move(all_); }

 private:
  void vector(const std::string& name, int64_t size) { all_.push_back({name, {size}}); }

  const LlamaSpec& spec_;
  std::vector<NamedShape> all_;
};
}  // namespace

std::vector<NamedShape> llama_parameters(const LlamaSpec& spec) {
  Shapes shapes(spec);
  shapes.matrix("model.embed_tokens", spec.vocab_size, spec.dim);
  shapes.per_layer_inputs();
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) shapes.block(layer);
  shapes.norm("model.norm");
  if (!spec.tie_embeddings) shapes.matrix("lm_head", spec.vocab_size, spec.dim);
  return shapes.take();
}
}  // namespace optrush
