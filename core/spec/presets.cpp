#include "spec/presets.h"

#include <cmath>

#include "base/suggest.h"
#include "base/text.h"
#include "optrush/error.h"

namespace optrush {
namespace {
constexpr int64_t kBytes = 256;  // vocabulary of bytes

/// Llama 3.1 and 3.2 (config.json of the published weights). `factor` scales a context of 8,192 tokens.
LlamaSpec llama3(int64_t dim, int64_t n_layers, int64_t n_heads, int64_t head_dim, int64_t ffn_dim,
                 double factor, bool tied) {
  return {.vocab_size = 128256,
          .dim = dim,
          .n_layers = n_layers,
          .n_heads = n_heads,
          .n_kv_heads = 8,
          .head_dim = head_dim,
          .ffn_dim = ffn_dim,
          .rope_theta = 500000,
          .rope_scaling = {.factor = factor,
                           .low_freq_factor = 1,
                           .high_freq_factor = 4,
                           .original_max_position = 8192},
          .tie_embeddings = tied};
}

LlamaSpec small(int64_t dim, int64_t n_layers, int64_t n_heads, int64_t n_kv_heads, int64_t ffn_dim) {
  return {.vocab_size = kBytes,
          .dim = dim,
          .n_layers = n_layers,
          .n_heads = n_heads,
          .n_kv_heads = n_kv_heads,
          .ffn_dim = ffn_dim};
}

// Qwen 2.5 (config.json of the published weights).
LlamaSpec qwen2_5(int64_t dim, int64_t n_layers, int64_t n_heads, int64_t ffn_dim) {
  return {.vocab_size = 151936,
          .dim = dim,
          .n_layers = n_layers,
          .n_heads = n_heads,
          .n_kv_heads = 2,
          .ffn_dim = ffn_dim,
          .norm_eps = 1e-6,
          .attention_bias = AttentionBias::qkv,
          .rope_theta = 1000000};
}

LlamaSpec qwen3(int64_t dim, int64_t ffn_dim) {
  return {.vocab_size = 151936,
          .dim = dim,
          .n_layers = 28,
          .n_heads = 16,
          .n_kv_heads = 8,
          .head_dim = 128,
          .ffn_dim = ffn_dim,
          .norm_eps = 1e-6,
          .qk_norm = QkNorm::per_head,
          .rope_theta = 1000000};
}

/// Gemma 3: five layers with a window of 512 for each layer with full attention.
LlamaSpec gemma3(int64_t dim, int64_t n_layers, int64_t ffn_dim) {
  LlamaSpec spec{.vocab_size = 262144,
                 .dim = dim,
                 .n_layers = n_layers,
                 .n_heads = 4,
                 .n_kv_heads = 1,
                 .head_dim = 256,
                 .ffn_dim = ffn_dim,
                 .activation = Activation::gelu_tanh,
                 .norm_placement = NormPlacement::both,
                 .norm_eps = 1e-6,
                 .qk_norm = QkNorm::per_head,
                 .embedding_scale = std::sqrt(static_cast<double>(dim)),
                 .rope_theta = 1000000,
                 .window = 512,
                 .window_rope_theta = 10000};
  for (int64_t layer = 5; layer < n_layers; layer += 6) spec.full_attention_layers.push_back(layer);
  return spec;
}
}  // namespace

const std::vector<Preset>& llama_presets() {
  static const std::vector<Preset> presets = {
      {"nano", "2 layers of 64: a few seconds per run, to try a script", small(64, 2, 4, 2, 172)},
      {"tiny", "4 layers of 256: for a laptop's CPU", small(256, 4, 8, 4, 688)},
      {"small", "8 layers of 512: for a workstation's CPU or any GPU", small(512, 8, 8, 4, 1376)},
      {"llama-3.2-1b", "Llama 3.2 1B", llama3(2048, 16, 32, 64, 8192, 32, true)},
      {"llama-3.2-3b", "Llama 3.2 3B", llama3(3072, 28, 24, 128, 8192, 32, true)},
      {"llama-3.1-8b", "Llama 3.1 8B", llama3(4096, 32, 32, 128, 14336, 8, false)},
      {"llama-3.1-70b", "Llama 3.1 70B", llama3(8192, 80, 64, 128, 28672, 8, false)},
      {"olmo-1b",
       "OLMo 1B: LayerNorm without parameters",
       {.vocab_size = 50304,
        .dim = 2048,
        .n_layers = 16,
        .n_heads = 16,
        .n_kv_heads = 16,
        .ffn_dim = 8192,
        .norm = NormKind::layernorm_without_parameters,
        .rope_theta = 10000,
        .tie_embeddings = true}},
      {"olmo-2-1b",
       "OLMo 2 1B: norms behind attention and MLP, and of queries and keys",
       {.vocab_size = 100352,
        .dim = 2048,
        .n_layers = 16,
        .n_heads = 16,
        .n_kv_heads = 16,
        .ffn_dim = 8192,
        .norm_placement = NormPlacement::after,
        .norm_eps = 1e-6,
        .qk_norm = QkNorm::whole,
        .rope_theta = 500000,
        .tie_embeddings = false}},
      {"qwen2.5-0.5b", "Qwen 2.5 0.5B: biases of queries, keys and values", qwen2_5(896, 24, 14, 4864)},
      {"qwen2.5-1.5b", "Qwen 2.5 1.5B", qwen2_5(1536, 28, 12, 8960)},
      {"qwen3-0.6b", "Qwen 3 0.6B: norms of the heads of queries and keys", qwen3(1024, 3072)},
      {"qwen3-1.7b", "Qwen 3 1.7B", qwen3(2048, 6144)},
      {"smollm3-3b",
       "SmolLM3 3B: every fourth layer without rotary embedding",
       {.vocab_size = 128256,
        .dim = 2048,
        .n_layers = 36,
        .n_heads = 16,
        .n_kv_heads = 4,
        .ffn_dim = 11008,
        .norm_eps = 1e-6,
        .rope_theta = 5000000,
        .layers_without_rope = {3, 7, 11, 15, 19, 23, 27, 31, 35}}},
      {"gemma-3-270m", "Gemma 3 270M: GEGLU, norms before and after, windows of 512 positions",
       gemma3(640, 18, 2048)},
      {"gemma-3-1b", "Gemma 3 1B, text", gemma3(1152, 26, 6912)},
      {"mistral-7b",
       "Mistral 7B v0.1: sliding window of 4,096 positions",
       {.vocab_size = 32000,
        .dim = 4096,
        .n_layers = 32,
        .n_heads = 32,
        .n_kv_heads = 8,
        .ffn_dim = 14336,
        .window = 4096,
        .tie_embeddings = false}},
  };
  return presets;
}

std::vector<std::string> llama_preset_names() { return texts_of(llama_presets(), &Preset::name); }

const LlamaSpec& llama_preset(const std::string& name) {
  for (const auto& preset : llama_presets())
    if (preset.name == name) return preset.spec;
  throw Error(ErrorCode::unknown_name, "there is no model '" + name + "'",
              did_you_mean(name, llama_preset_names()));
}
}  // namespace optrush
