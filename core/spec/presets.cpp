#include "spec/presets.h"

#include <cmath>

#include "base/suggest.h"
#include "base/text.h"
#include "optrush/error.h"

namespace optrush {
namespace {
constexpr int64_t kBytes = 256;  // vocabulary of bytes

/// The sizes that every preset states.
LlamaSpec sized(int64_t vocab_size, int64_t dim, int64_t n_layers, int64_t n_heads, int64_t n_kv_heads,
                int64_t ffn_dim) {
  return {.vocab_size = vocab_size,
          .dim = dim,
          .n_layers = n_layers,
          .n_heads = n_heads,
          .n_kv_heads = n_kv_heads,
          .ffn_dim = ffn_dim};
}

// The others are from config.json of the published weights.

/// Llama 3.1 and 3.2. `factor` scales a context of 8,192 tokens.
LlamaSpec llama3(int64_t dim, int64_t n_layers, int64_t n_heads, int64_t head_dim, int64_t ffn_dim,
                 double factor, bool tied) {
  LlamaSpec spec = sized(128256, dim, n_layers, n_heads, 8, ffn_dim);
  spec.head_dim = head_dim;
  spec.rope_theta = 500000;
  spec.rope_scaling = {
      .factor = factor, .low_freq_factor = 1, .high_freq_factor = 4, .original_max_position = 8192};
  spec.tie_embeddings = tied;
  return spec;
}

LlamaSpec olmo() {
  LlamaSpec spec = sized(50304, 2048, 16, 16, 16, 8192);
  spec.norm = NormKind::layernorm_without_parameters;
  spec.rope_theta = 10000;
  spec.tie_embeddings = true;
  return spec;
}

LlamaSpec olmo2() {
  LlamaSpec spec = sized(100352, 2048, 16, 16, 16, 8192);
  spec.norm_placement = NormPlacement::after;
  spec.norm_eps = 1e-6;
  spec.qk_norm = QkNorm::whole;
  spec.rope_theta = 500000;
  spec.tie_embeddings = false;
  return spec;
}

LlamaSpec qwen2_5(int64_t dim, int64_t n_layers, int64_t n_heads, int64_t ffn_dim) {
  LlamaSpec spec = sized(151936, dim, n_layers, n_heads, 2, ffn_dim);
  spec.norm_eps = 1e-6;
  spec.attention_bias = AttentionBias::qkv;
  spec.rope_theta = 1000000;
  return spec;
}

LlamaSpec qwen3(int64_t dim, int64_t ffn_dim) {
  LlamaSpec spec = sized(151936, dim, 28, 16, 8, ffn_dim);
  spec.head_dim = 128;
  spec.norm_eps = 1e-6;
  spec.qk_norm = QkNorm::per_head;
  spec.rope_theta = 1000000;
  return spec;
}

LlamaSpec smollm3() {
  LlamaSpec spec = sized(128256, 2048, 36, 16, 4, 11008);
  spec.norm_eps = 1e-6;
  spec.rope_theta = 5000000;
  spec.layers_without_rope = {3, 7, 11, 15, 19, 23, 27, 31, 35};
  return spec;
}

/// Gemma 3: five layers with a window of 512 for each layer with full attention.
LlamaSpec gemma3(int64_t dim, int64_t n_layers, int64_t ffn_dim) {
  LlamaSpec spec = sized(262144, dim, n_layers, 4, 1, ffn_dim);
  spec.head_dim = 256;
  spec.activation = Activation::gelu_tanh;
  spec.norm_placement = NormPlacement::both;
  spec.norm_eps = 1e-6;
  spec.qk_norm = QkNorm::per_head;
  spec.embedding_scale = std::sqrt(static_cast<double>(dim));
  spec.rope_theta = 1000000;
  spec.window = 512;
  spec.window_rope_theta = 10000;
  for (int64_t layer = 5; layer < n_layers; layer += 6) spec.full_attention_layers.push_back(layer);
  return spec;
}

LlamaSpec mistral() {
  LlamaSpec spec = sized(32000, 4096, 32, 32, 8, 14336);
  spec.window = 4096;
  spec.tie_embeddings = false;
  return spec;
}
}  // namespace

const std::vector<Preset>& llama_presets() {
  static const std::vector<Preset> presets = {
      {"nano", "2 layers of 64: a few seconds per run, to try a script", sized(kBytes, 64, 2, 4, 2, 172)},
      {"tiny", "4 layers of 256: for a laptop's CPU", sized(kBytes, 256, 4, 8, 4, 688)},
      {"small", "8 layers of 512: for a workstation's CPU or any GPU", sized(kBytes, 512, 8, 8, 4, 1376)},
      {"llama-3.2-1b", "Llama 3.2 1B", llama3(2048, 16, 32, 64, 8192, 32, true)},
      {"llama-3.2-3b", "Llama 3.2 3B", llama3(3072, 28, 24, 128, 8192, 32, true)},
      {"llama-3.1-8b", "Llama 3.1 8B", llama3(4096, 32, 32, 128, 14336, 8, false)},
      {"llama-3.1-70b", "Llama 3.1 70B", llama3(8192, 80, 64, 128, 28672, 8, false)},
      {"olmo-1b", "OLMo 1B: LayerNorm without parameters", olmo()},
      {"olmo-2-1b", "OLMo 2 1B: norms behind attention and MLP, and of queries and keys", olmo2()},
      {"qwen2.5-0.5b", "Qwen 2.5 0.5B: biases of queries, keys and values", qwen2_5(896, 24, 14, 4864)},
      {"qwen2.5-1.5b", "Qwen 2.5 1.5B", qwen2_5(1536, 28, 12, 8960)},
      {"qwen3-0.6b", "Qwen 3 0.6B: norms of the heads of queries and keys", qwen3(1024, 3072)},
      {"qwen3-1.7b", "Qwen 3 1.7B", qwen3(2048, 6144)},
      {"smollm3-3b", "SmolLM3 3B: every fourth layer without rotary embedding", smollm3()},
      {"gemma-3-270m", "Gemma 3 270M: GEGLU, norms before and after, windows of 512 positions",
       gemma3(640, 18, 2048)},
      {"gemma-3-1b", "Gemma 3 1B, text", gemma3(1152, 26, 6912)},
      {"mistral-7b", "Mistral 7B v0.1: sliding window of 4,096 positions", mistral()},
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
