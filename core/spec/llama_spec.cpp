#include <algorithm>
#include <cmath>

#include "optrush/error.h"
#include "spec/llama_checks.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
constexpr int64_t kLargest = int64_t{1} << 31;  // products of two dimensions stay far from overflow
}  // namespace

double LlamaSpec::score_scale(int64_t layer) const {
  const double usual = 1 / std::sqrt(static_cast<double>(head_size(layer)));
  const double m = 0.1 * rope_scaling.score_mscale * std::log(rope_scaling.factor) + 1;
  return (attention_scale != 0 ? attention_scale : usual) * m * m;
}

int64_t LlamaSpec::window_of(int64_t layer) const {
  return std::ranges::binary_search(full_attention_layers, layer) ? 0 : window;
}

int64_t LlamaSpec::head_size(int64_t layer) const {
  const bool other = full_attention.head_dim != 0 && window_of(layer) == 0;
  return other ? full_attention.head_dim : head_size();
}

int64_t LlamaSpec::kv_heads(int64_t layer) const {
  return full_attention.kv_heads != 0 && window_of(layer) == 0 ? full_attention.kv_heads : n_kv_heads;
}

bool LlamaSpec::keys_as_values(int64_t layer) const {
  return full_attention.keys_as_values && window_of(layer) == 0;
}

bool LlamaSpec::has_linear_attention(int64_t layer) const {
  return linear_attention() != nullptr && !std::ranges::binary_search(full_attention_layers, layer);
}

bool LlamaSpec::has_mlp(int64_t layer) const {
  return !std::ranges::binary_search(layers_without_mlp, layer);
}

bool LlamaSpec::has_experts(int64_t layer) const {
  return n_experts > 0 && has_mlp(layer) && !std::ranges::binary_search(dense_layers, layer);
}

bool LlamaSpec::rotates(int64_t layer) const {
  return position == PositionKind::rope && !std::ranges::binary_search(layers_without_rope, layer);
}

Record<RopeScaling> record_of(const RopeScaling*) {
  using T = RopeScaling;
  return Record<T>::given("model.rope_scaling")
      .field("type", &T::type,
             "llama3: Llama 3.1; linear: all frequencies; yarn: arXiv:2309.00071; longrope: "
             "arXiv:2402.13753; proportional: only a fraction of the pairs, as Gemma 4",
             {.choices = {"llama3", "linear", "yarn", "longrope", "proportional"}})
      .field("factor", &T::factor, "divisor of the low frequencies; 1: none; longrope: growth of the context",
             {.min = 1})
      .field("low_freq_factor", &T::low_freq_factor,
             "llama3: wavelengths above original_max_position / low_freq_factor are scaled", {.min = 0})
      .field("high_freq_factor", &T::high_freq_factor,
             "llama3: wavelengths below original_max_position / high_freq_factor are kept", {.min = 0})
      .field("original_max_position", &T::original_max_position, "context length of the original training",
             {.min = 1, .max = kLargest})
      .field("beta_fast", &T::beta_fast,
             "yarn: dimensions with more rotations in the original context are kept", {.min = 0})
      .field("beta_slow", &T::beta_slow,
             "yarn: dimensions with fewer rotations in the original context are scaled", {.min = 0})
      .field("attention_factor", &T::attention_factor,
             "yarn, longrope: factor of cosine and sine; 0: computed, for yarn 0.1 ln(factor) + 1",
             {.min = 0})
      .field("truncate", &T::truncate, "yarn: round the ends of the ramp to whole dimensions")
      .field("score_mscale", &T::score_mscale,
             "yarn: multiply attention scores by (0.1 score_mscale ln(factor) + 1)^2, as DeepSeek V3",
             {.left_out = true, .min = 0})
      .field("query_beta", &T::query_beta,
             "yarn: multiply queries by 1 + query_beta ln(1 + floor(position / original_max_position))",
             {.left_out = true, .min = 0})
      .field("short_factor", &T::short_factor,
             "longrope: divisors of frequencies up to original_max_position",
             {.left_out = true, .type = "number[]"})
      .field("long_factor", &T::long_factor, "longrope: divisors of frequencies in longer sequences",
             {.left_out = true, .type = "number[]"})
      .field("fraction", &T::fraction, "proportional: part of the pairs of dimensions that is rotated",
             {.left_out = true, .min = 0, .max = 1});
}

Record<FullAttention> record_of(const FullAttention*) {
  using T = FullAttention;
  return Record<T>::given("model.full_attention")
      .field("head_dim", &T::head_dim, "width of a head; 0: as in layers with a window",
             {.min = 0, .max = kLargest})
      .field("kv_heads", &T::kv_heads, "number of key/value heads; 0: as in layers with a window",
             {.min = 0, .max = kLargest})
      .field("keys_as_values", &T::keys_as_values, "use the product of the matrix of keys as values");
}

Record<Router> record_of(const Router*) {
  using T = Router;
  return Record<T>::given("model.router")
      .field("scores", &T::scores, "scores of the experts, from the logits",
             {.choices = {"softmax", "sigmoid"}})
      .field("bias", &T::bias,
             "logits: a trained bias of the logits; choice: a fixed bias of the scores that choose experts",
             {.choices = {"none", "logits", "choice"}})
      .field("groups", &T::groups, "groups of experts", {.min = 1, .max = 65536})
      .field("kept_groups", &T::kept_groups, "groups that a token may pass", {.min = 1, .max = 65536})
      .field("scale", &T::scale, "factor of the weights of a token's experts", {.min = 0});
}

Record<LatentAttention> record_of(const LatentAttention*) {
  using T = LatentAttention;
  const auto size = [](int64_t least) { return FieldUse{.min = least, .max = kLargest}; };
  return Record<T>::given("model.latent")
      .field("kv_rank", &T::kv_rank, "width of the latent vector of keys and values; 0: none", size(0))
      .field("q_rank", &T::q_rank, "width of the latent vector of queries; 0: the model's width", size(0))
      .field("rope_dim", &T::rope_dim, "rotated dimensions at the end of a head of queries and keys", size(2))
      .field("value_dim", &T::value_dim, "width of a head of values", size(1))
      .field("interleaved", &T::interleaved, "rotate pairs of neighbours; false: halves, as Llama");
}

Record<DeltaNet> record_of(const DeltaNet*) {
  using T = DeltaNet;
  const auto size = [](int64_t least) { return FieldUse{.min = least, .max = kLargest}; };
  return Record<T>::given("model.delta_net")
      .field("key_heads", &T::key_heads, "heads of queries and keys; 0: no Gated DeltaNet", size(0))
      .field("value_heads", &T::value_heads, "heads of values; a multiple of key_heads", size(0))
      .field("key_dim", &T::key_dim, "width of a head of queries and keys", size(1))
      .field("value_dim", &T::value_dim, "width of a head of values", size(1))
      .field("kernel", &T::kernel, "positions of the short convolution", {.min = 1, .max = 65536})
      .field("joined", &T::joined, "two matrices of the input, as Qwen3-Next; false: four, as Qwen 3.5");
}

Record<Mamba2> record_of(const Mamba2*) {
  using T = Mamba2;
  const auto size = [](int64_t least) { return FieldUse{.min = least, .max = kLargest}; };
  return Record<T>::given("model.mamba")
      .field("heads", &T::heads, "heads, each with a state; 0: no Mamba 2", size(0))
      .field("groups", &T::groups, "groups of heads that share B and C; must divide heads", size(1))
      .field("head_dim", &T::head_dim, "width of a head", size(1))
      .field("state", &T::state, "size of the state for each dimension of a head", size(1))
      .field("kernel", &T::kernel, "positions of the short convolution", {.min = 1, .max = 65536})
      .field("convolution_bias", &T::convolution_bias, "a bias of the short convolution")
      .field("projection_bias", &T::projection_bias, "biases of the first and the last matrix")
      .field("norm_by_group", &T::norm_by_group,
             "RMSNorm of the values of each group; false: of all values, as Granite 4 has")
      .field("min_step", &T::min_step, "least time step, as Nemotron-H has", {.min = 0});
}

Record<LlamaSpec> record_of(const LlamaSpec*) {
  using T = LlamaSpec;
  return Record<T>::given("model")
      .field("vocab_size", &T::vocab_size, "number of tokens in the vocabulary", {.min = 2, .max = kLargest})
      .field("dim", &T::dim, "width of the residual stream", {.min = 1, .max = kLargest})
      .field("n_layers", &T::n_layers, "blocks", {.min = 1, .max = 10000})
      .field("n_heads", &T::n_heads, "number of query heads", {.min = 1, .max = kLargest})
      .field("n_kv_heads", &T::n_kv_heads, "number of key/value heads; must divide n_heads",
             {.min = 1, .max = kLargest})
      .field("head_dim", &T::head_dim, "width of a head, even; 0: dim / n_heads", {.min = 0, .max = kLargest})
      .field("ffn_dim", &T::ffn_dim, "inner width of the MLP", {.min = 1, .max = kLargest})
      .field("double_wide_mlp", &T::double_wide_mlp,
             "MLPs of kv_shared_layers are twice as wide, as Gemma 4 E2B", {.left_out = true})
      .field("activation", &T::activation,
             "activation of the gate of the MLP: silu makes it a SwiGLU, gelu a GEGLU; gelu_tanh "
             "approximates GELU, as Gemma does; clamped_silu is the unit of gpt-oss; relu2: the square of "
             "ReLU in an MLP without a gate, as Nemotron-H has",
             {.choices = {"silu", "gelu", "gelu_tanh", "clamped_silu", "relu2"}})
      .field("norm", &T::norm, "kind of the norms of attention, MLP and head",
             {.choices = {"rmsnorm", "layernorm", "layernorm_without_parameters"}})
      .field("norm_placement", &T::norm_placement,
             "before: x + f(norm(x)), as Llama; after: x + norm(f(x)), as OLMo 2; both: x + "
             "norm(f(norm(x))), as Gemma 3",
             {.choices = {"before", "after", "both"}})
      .field("norm_eps", &T::norm_eps, "epsilon added to the variance in a norm", {.min = 0})
      .field("qk_norm", &T::qk_norm,
             "RMSNorm of queries and keys: per_head, as Qwen 3, or over the whole width, as OLMo 2",
             {.choices = {"none", "per_head", "whole"}})
      .field("value_norm", &T::value_norm, "RMSNorm without a weight of each head of values, as Gemma 4",
             {.left_out = true})
      .field("layer_scale", &T::layer_scale,
             "multiply the output of a block by a number of the checkpoint, as Gemma 4", {.left_out = true})
      .field("attention_bias", &T::attention_bias,
             "biases of queries, keys and values (qkv), as Qwen 2; all: and of the output",
             {.choices = {"none", "qkv", "all"}})
      .field("attention_scale", &T::attention_scale,
             "factor of the scores before the softmax; 0: 1 / sqrt(head_dim)", {.min = 0})
      .field("embedding_scale", &T::embedding_scale, "factor of the embeddings, as Gemma and Granite have")
      .field("residual_scale", &T::residual_scale,
             "factor of what attention and MLP add to the residual stream, as Granite has")
      .field("logits_divisor", &T::logits_divisor, "divisor of the logits, as Granite has")
      .field("attention_soft_cap", &T::attention_soft_cap,
             "soft cap of the attention scores, cap tanh(score / cap), as Gemma 2 has; 0: none", {.min = 0})
      .field("logits_soft_cap", &T::logits_soft_cap,
             "soft cap of the logits, as Gemma 2 and Gemma 3 have; 0: none", {.min = 0})
      .field("attention_sinks", &T::attention_sinks,
             "a trained score of each head in the softmax, as gpt-oss", {.left_out = true})
      .field("attention_gate", &T::attention_gate,
             "multiply the output of attention by the sigmoid of a gate, as Qwen3-Next", {.left_out = true})
      .field("delta_net", &T::delta_net,
             "Gated DeltaNet in place of attention, except in full_attention_layers, as Qwen3-Next",
             {.left_out = true})
      .field("mamba", &T::mamba,
             "Mamba 2 in place of attention, except in full_attention_layers, as Granite 4 has",
             {.left_out = true})
      .field("latent", &T::latent, "multi-head latent attention, as DeepSeek V3", {.left_out = true})
      .field("position", &T::position,
             "rope: rotary embedding; alibi: biases of the scores that are linear in the distance; none: no "
             "positions",
             {.choices = {"rope", "alibi", "none"}})
      .field("rope_theta", &T::rope_theta, "base of the rotary frequencies", {.min = 1})
      .field("rotary_fraction", &T::rotary_fraction,
             "part of a head that is rotated, from its first dimension on",
             {.left_out = true, .min = 0, .max = 1})
      .field("rope_scaling", &T::rope_scaling, "rescaling of the rotary frequencies")
      .field("layers_without_rope", &T::layers_without_rope,
             "layers without rotary embedding, from 0, as SmolLM3 has")
      .field("window", &T::window,
             "number of positions that attention sees, the query's own among them (sliding window); 0: all",
             {.min = 0, .max = kLargest})
      .field("full_attention_layers", &T::full_attention_layers,
             "layers that have full attention although window, delta_net or mamba is set, from 0")
      .field("full_attention", &T::full_attention,
             "heads of full_attention_layers where the other layers have a window, as Gemma 4",
             {.left_out = true})
      .field("kv_shared_layers", &T::kv_shared_layers,
             "number of last layers that use keys and values of earlier ones, as Gemma 4 E2B",
             {.left_out = true, .min = 0, .max = 10000})
      .field("per_layer_input_dim", &T::per_layer_input_dim,
             "width of the input that each layer gets for each token, as Gemma 4 E2B; 0: none",
             {.left_out = true, .min = 0, .max = kLargest})
      .field("per_layer_vocab_size", &T::per_layer_vocab_size,
             "tokens in the table of these inputs; 0: vocab_size",
             {.left_out = true, .min = 0, .max = kLargest})
      .field("window_rope_theta", &T::window_rope_theta,
             "base of the rotary frequencies in layers with a window, where rope_scaling then does not "
             "apply, as Gemma 3 has; 0: as in all layers",
             {.min = 0})
      .field("n_experts", &T::n_experts, "number of experts in place of each MLP; 0: a dense model",
             {.min = 0, .max = 65536})
      .field("experts_per_token", &T::experts_per_token, "number of experts that a token passes",
             {.min = 1, .max = 65536})
      .field("expert_ffn_dim", &T::expert_ffn_dim, "inner width of the MLP of an expert; 0: ffn_dim",
             {.min = 0, .max = kLargest})
      .field("shared_expert_ffn_dim", &T::shared_expert_ffn_dim,
             "inner width of the MLP of an expert that each token passes, with a gate, as Qwen 2 MoE; 0: "
             "none",
             {.min = 0, .max = kLargest})
      .field("shared_expert_gate", &T::shared_expert_gate,
             "weigh the shared expert by a gate; false: by 1, as DeepSeek V3", {.left_out = true})
      .field("expert_bias", &T::expert_bias, "biases in the MLP of an expert, as gpt-oss has",
             {.left_out = true})
      .field("experts_beside_mlp", &T::experts_beside_mlp,
             "have an MLP of width ffn_dim beside the experts, each with norms, as Gemma 4 26B",
             {.left_out = true})
      .field("normalize_router", &T::normalize_router,
             "divide the router weights of the experts of a token by their sum")
      .field("router", &T::router, "scores, bias and groups of the router", {.left_out = true})
      .field("dense_layers", &T::dense_layers, "layers that have an MLP although n_experts is set, from 0")
      .field("layers_without_mlp", &T::layers_without_mlp,
             "layers of attention or mamba alone, without an MLP or experts, from 0, as Nemotron-H has",
             {.left_out = true})
      .field("tie_embeddings", &T::tie_embeddings, "use the embedding as the weight of the head")
      .field("init_std", &T::init_std, "standard deviation of the initial weights", {.min = 0})
      .field("checkpoint", &T::checkpoint,
             "folder with config.json and safetensors, which set all other fields; empty: random initial "
             "weights");
}

LlamaSpec llama_from_json(const Json& json, const std::string& where) {
  const LlamaSpec spec = fields_of<LlamaSpec>().read(json, where);
  if (spec.checkpoint.empty()) {
    check_llama(spec, where);
  } else {
    for (const auto& [key, value] : json.items())
      if (key != "checkpoint")
        throw Error(ErrorCode::conflict,
                    "model." + key + " would be ignored: the checkpoint '" + spec.checkpoint + "' sets it",
                    "leave out model." + key + ", or leave out model.checkpoint", where);
  }
  return spec;
}

Json to_json(const LlamaSpec& spec) {
  if (!spec.checkpoint.empty()) return {{"checkpoint", spec.checkpoint}};
  Json json = record::written(spec);
  json.erase("checkpoint");
  return json;
}
}  // namespace optrush
