#include <algorithm>
#include <cmath>
#include <utility>

#include "optrush/error.h"
#include "spec/spec_fields.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
constexpr int64_t kLargest = int64_t{1} << 31;  // products of two dimensions stay far from overflow

void check_llama(const LlamaSpec& spec, const std::string& where) {
  const auto refuse = [&](const std::string& what, const std::string& cure) {
    throw Error(ErrorCode::invalid_value, what, cure, where);
  };
  const auto text = [](int64_t n) { return std::to_string(n); };
  if (spec.head_dim == 0 && spec.dim % spec.n_heads != 0)
    refuse(
        "model.dim (" + text(spec.dim) + ") is not a multiple of model.n_heads (" + text(spec.n_heads) + ")",
        "change one of them, or give model.head_dim");
  if (spec.position == PositionKind::rope && spec.head_size() % 2 != 0)
    refuse("a head of " + text(spec.head_size()) + " dimensions cannot be rotated",
           "rotary embedding needs pairs of dimensions: make model.head_dim, or model.dim / model.n_heads, "
           "even");
  if (spec.n_heads % spec.n_kv_heads != 0)
    refuse("model.n_heads (" + text(spec.n_heads) + ") is not a multiple of model.n_kv_heads (" +
               text(spec.n_kv_heads) + ")",
           "change one of them: each key/value head must serve the same number of query heads");
  if (const auto& rope = spec.rope_scaling; rope.rescales()) {
    if (rope.type == RopeType::llama3 && rope.low_freq_factor >= rope.high_freq_factor)
      refuse("model.rope_scaling.low_freq_factor must be below high_freq_factor", "Llama 3.1 uses 1 and 4");
    if (rope.type == RopeType::yarn && rope.beta_slow >= rope.beta_fast)
      refuse("model.rope_scaling.beta_slow must be below beta_fast", "YaRN uses 1 and 32");
    if (rope.type == RopeType::yarn && rope.beta_slow <= 0)
      refuse("model.rope_scaling.beta_slow must be positive", "YaRN uses 1");
  }
  const auto check_layers = [&](const char* name, const std::vector<int64_t>& layers) {
    for (size_t i = 0; i < layers.size(); ++i) {
      if (layers[i] < 0 || layers[i] >= spec.n_layers)
        refuse("model." + std::string(name) + " lists layer " + text(layers[i]) + ", but the model has " +
                   text(spec.n_layers) + " layers",
               "layers are numbered from 0 to " + text(spec.n_layers - 1));
      if (i > 0 && layers[i] <= layers[i - 1])
        refuse("model." + std::string(name) + " lists layer " + text(layers[i]) + " after layer " +
                   text(layers[i - 1]),
               "list each layer once, in ascending order");
    }
  };
  check_layers("layers_without_rope", spec.layers_without_rope);
  check_layers("full_attention_layers", spec.full_attention_layers);
  if (spec.window == 0 && !spec.full_attention_layers.empty())
    refuse("model.full_attention_layers without model.window: every layer has full attention",
           "set model.window, or leave out model.full_attention_layers");
  check_layers("dense_layers", spec.dense_layers);
  if (spec.n_experts > 0 && spec.experts_per_token > spec.n_experts)
    refuse("model.experts_per_token (" + text(spec.experts_per_token) + ") is above model.n_experts (" +
               text(spec.n_experts) + ")",
           "change one of them");
  if (spec.n_experts == 0 && !spec.dense_layers.empty())
    refuse("model.dense_layers without model.n_experts: every layer has an MLP",
           "set model.n_experts, or leave out model.dense_layers");
  if (spec.n_experts == 0 && spec.shared_expert_ffn_dim != 0)
    refuse("model.shared_expert_ffn_dim without model.n_experts: a dense model has no experts",
           "set model.n_experts, or leave out model.shared_expert_ffn_dim");
  for (const auto& [field, value] :
       {std::pair("embedding_scale", spec.embedding_scale), std::pair("residual_scale", spec.residual_scale),
        std::pair("logits_divisor", spec.logits_divisor)})
    if (value == 0)
      refuse("model." + std::string(field) + " is 0: the model would compute nothing",
             "leave it out for 1, or give another number");
  if (spec.window_rope_theta != 0 && spec.window == 0)
    refuse("model.window_rope_theta without model.window: no layer has a window",
           "set model.window, or leave out model.window_rope_theta");
  if (spec.window_rope_theta != 0 && spec.position == PositionKind::alibi)
    refuse("model.window_rope_theta with model.position = \"alibi\": no layer has rotary embedding",
           "leave out one of them");
  if (spec.position == PositionKind::alibi && !spec.layers_without_rope.empty())
    refuse("model.layers_without_rope with model.position = \"alibi\": no layer has rotary embedding",
           "leave out one of them");
}
}  // namespace

double LlamaSpec::score_scale() const {
  return attention_scale != 0 ? attention_scale : 1 / std::sqrt(static_cast<double>(head_size()));
}

int64_t LlamaSpec::window_of(int64_t layer) const {
  return std::ranges::binary_search(full_attention_layers, layer) ? 0 : window;
}

bool LlamaSpec::has_experts(int64_t layer) const {
  return n_experts > 0 && !std::ranges::binary_search(dense_layers, layer);
}

bool LlamaSpec::rotates(int64_t layer) const {
  return position == PositionKind::rope && !std::ranges::binary_search(layers_without_rope, layer);
}

const Record<RopeScaling>& record_of(const RopeScaling*) {
  using T = RopeScaling;
  static const auto fields =
      Record<T>::given("model.rope_scaling")
          .field("type", &T::type, "llama3: Llama 3.1; linear: all frequencies; yarn: arXiv:2309.00071",
                 {.choices = {"llama3", "linear", "yarn"}})
          .field("factor", &T::factor, "divisor of the low frequencies; 1: none", {.min = 1})
          .field("low_freq_factor", &T::low_freq_factor,
                 "llama3: wavelengths above original_max_position / low_freq_factor are scaled", {.min = 0})
          .field("high_freq_factor", &T::high_freq_factor,
                 "llama3: wavelengths below original_max_position / high_freq_factor are kept", {.min = 0})
          .field("original_max_position", &T::original_max_position,
                 "context length of the original training", {.min = 1, .max = kLargest})
          .field("beta_fast", &T::beta_fast,
                 "yarn: dimensions with more rotations in the original context are kept", {.min = 0})
          .field("beta_slow", &T::beta_slow,
                 "yarn: dimensions with fewer rotations in the original context are scaled", {.min = 0})
          .field("attention_factor", &T::attention_factor,
                 "yarn: factor of cosine and sine; 0: 0.1 ln(factor) + 1", {.min = 0})
          .field("truncate", &T::truncate, "yarn: round the ends of the ramp to whole dimensions");
  return fields;
}

const Record<LlamaSpec>& record_of(const LlamaSpec*) {
  using T = LlamaSpec;
  static const auto fields =
      Record<T>::given("model")
          .field("vocab_size", &T::vocab_size, "number of tokens in the vocabulary",
                 {.min = 2, .max = kLargest})
          .field("dim", &T::dim, "width of the residual stream", {.min = 1, .max = kLargest})
          .field("n_layers", &T::n_layers, "blocks", {.min = 1, .max = 10000})
          .field("n_heads", &T::n_heads, "number of query heads", {.min = 1, .max = kLargest})
          .field("n_kv_heads", &T::n_kv_heads, "number of key/value heads; must divide n_heads",
                 {.min = 1, .max = kLargest})
          .field("head_dim", &T::head_dim, "width of a head, even; 0: dim / n_heads",
                 {.min = 0, .max = kLargest})
          .field("ffn_dim", &T::ffn_dim, "inner width of the MLP", {.min = 1, .max = kLargest})
          .field("activation", &T::activation,
                 "activation of the gate of the MLP: silu makes it a SwiGLU, gelu a GEGLU; gelu_tanh "
                 "approximates GELU, as Gemma does",
                 {.choices = {"silu", "gelu", "gelu_tanh"}})
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
          .field("attention_bias", &T::attention_bias,
                 "biases of queries, keys and values (qkv), as Qwen 2; all: and of the output",
                 {.choices = {"none", "qkv", "all"}})
          .field("attention_scale", &T::attention_scale,
                 "factor of the scores before the softmax; 0: 1 / sqrt(head_dim)", {.min = 0})
          .field("embedding_scale", &T::embedding_scale,
                 "factor of the embeddings, as Gemma and Granite have")
          .field("residual_scale", &T::residual_scale,
                 "factor of what attention and MLP add to the residual stream, as Granite has")
          .field("logits_divisor", &T::logits_divisor, "divisor of the logits, as Granite has")
          .field("attention_soft_cap", &T::attention_soft_cap,
                 "soft cap of the attention scores, cap tanh(score / cap), as Gemma 2 has; 0: none",
                 {.min = 0})
          .field("logits_soft_cap", &T::logits_soft_cap,
                 "soft cap of the logits, as Gemma 2 and Gemma 3 have; 0: none", {.min = 0})
          .field("position", &T::position,
                 "rope: rotary embedding; alibi: biases of the scores that are linear in the distance",
                 {.choices = {"rope", "alibi"}})
          .field("rope_theta", &T::rope_theta, "base of the rotary frequencies", {.min = 1})
          .field("rope_scaling", &T::rope_scaling, "rescaling of the rotary frequencies")
          .field("layers_without_rope", &T::layers_without_rope,
                 "layers without rotary embedding, from 0, as SmolLM3 has")
          .field(
              "window", &T::window,
              "number of positions that attention sees, the query's own among them (sliding window); 0: all",
              {.min = 0, .max = kLargest})
          .field("full_attention_layers", &T::full_attention_layers,
                 "layers that have full attention although window is set, from 0")
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
          .field("normalize_router", &T::normalize_router,
                 "divide the router weights of the experts of a token by their sum")
          .field("dense_layers", &T::dense_layers,
                 "layers that have an MLP although n_experts is set, from 0")
          .field("tie_embeddings", &T::tie_embeddings, "use the embedding as the weight of the head")
          .field("init_std", &T::init_std, "standard deviation of the initial weights", {.min = 0})
          .field("checkpoint", &T::checkpoint,
                 "folder with config.json and safetensors, which set all other fields; empty: random initial "
                 "weights");
  return fields;
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
  Json json = record_of(&spec).write(spec);
  json.erase("checkpoint");
  return json;
}
}  // namespace optrush
