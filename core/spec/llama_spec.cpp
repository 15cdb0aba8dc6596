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

const Fields<RopeScaling>& rope_scaling_fields() {
  using T = RopeScaling;
  static const auto fields =
      Fields<T>()
          .optional(&T::type, {.name = "type",
                               .doc = "llama3: Llama 3.1; linear: all frequencies; yarn: arXiv:2309.00071",
                               .choices = {"llama3", "linear", "yarn"}})
          .optional(&T::factor,
                    {.name = "factor", .doc = "divisor of the low frequencies; 1: none", .min = 1})
          .optional(&T::low_freq_factor,
                    {.name = "low_freq_factor",
                     .doc = "llama3: wavelengths above original_max_position / low_freq_factor are scaled",
                     .min = 0})
          .optional(&T::high_freq_factor,
                    {.name = "high_freq_factor",
                     .doc = "llama3: wavelengths below original_max_position / high_freq_factor are kept",
                     .min = 0})
          .optional(&T::original_max_position, {.name = "original_max_position",
                                                .doc = "context length of the original training",
                                                .min = 1,
                                                .max = kLargest})
          .optional(&T::beta_fast,
                    {.name = "beta_fast",
                     .doc = "yarn: dimensions with more rotations in the original context are kept",
                     .min = 0})
          .optional(&T::beta_slow,
                    {.name = "beta_slow",
                     .doc = "yarn: dimensions with fewer rotations in the original context are scaled",
                     .min = 0})
          .optional(&T::attention_factor, {.name = "attention_factor",
                                           .doc = "yarn: factor of cosine and sine; 0: 0.1 ln(factor) + 1",
                                           .min = 0})
          .optional(&T::truncate,
                    {.name = "truncate", .doc = "yarn: round the ends of the ramp to whole dimensions"});
  return fields;
}

const Fields<LlamaSpec>& llama_fields() {
  using T = LlamaSpec;
  static const auto fields =
      Fields<T>()
          .optional(
              &T::vocab_size,
              {.name = "vocab_size", .doc = "number of tokens in the vocabulary", .min = 2, .max = kLargest})
          .optional(&T::dim,
                    {.name = "dim", .doc = "width of the residual stream", .min = 1, .max = kLargest})
          .optional(&T::n_layers, {.name = "n_layers", .doc = "blocks", .min = 1, .max = 10000})
          .optional(&T::n_heads,
                    {.name = "n_heads", .doc = "number of query heads", .min = 1, .max = kLargest})
          .optional(&T::n_kv_heads, {.name = "n_kv_heads",
                                     .doc = "number of key/value heads; must divide n_heads",
                                     .min = 1,
                                     .max = kLargest})
          .optional(&T::head_dim, {.name = "head_dim",
                                   .doc = "width of a head, even; 0: dim / n_heads",
                                   .min = 0,
                                   .max = kLargest})
          .optional(&T::ffn_dim,
                    {.name = "ffn_dim", .doc = "inner width of the MLP", .min = 1, .max = kLargest})
          .optional(
              &T::activation,
              {.name = "activation",
               .doc = "activation of the gate of the MLP: silu makes it a SwiGLU, gelu a GEGLU; gelu_tanh "
                      "approximates GELU, as Gemma does",
               .choices = {"silu", "gelu", "gelu_tanh"}})
          .optional(&T::norm, {.name = "norm",
                               .doc = "kind of the norms of attention, MLP and head",
                               .choices = {"rmsnorm", "layernorm", "layernorm_without_parameters"}})
          .optional(&T::norm_placement,
                    {.name = "norm_placement",
                     .doc = "before: x + f(norm(x)), as Llama; after: x + norm(f(x)), as OLMo 2; both: x + "
                            "norm(f(norm(x))), as Gemma 3",
                     .choices = {"before", "after", "both"}})
          .optional(&T::norm_eps,
                    {.name = "norm_eps", .doc = "epsilon added to the variance in a norm", .min = 0})
          .optional(&T::qk_norm,
                    {.name = "qk_norm",
                     .doc = "RMSNorm of queries and keys: per_head, as Qwen 3, or over the whole "
                            "width, as OLMo 2",
                     .choices = {"none", "per_head", "whole"}})
          .optional(&T::attention_bias,
                    {.name = "attention_bias",
                     .doc = "biases of queries, keys and values (qkv), as Qwen 2; all: and of the output",
                     .choices = {"none", "qkv", "all"}})
          .optional(&T::attention_scale,
                    {.name = "attention_scale",
                     .doc = "factor of the scores before the softmax; 0: 1 / sqrt(head_dim)",
                     .min = 0})
          .optional(&T::embedding_scale,
                    {.name = "embedding_scale", .doc = "factor of the embeddings, as Gemma and Granite have"})
          .optional(&T::residual_scale,
                    {.name = "residual_scale",
                     .doc = "factor of what attention and MLP add to the residual stream, as Granite has"})
          .optional(&T::logits_divisor,
                    {.name = "logits_divisor", .doc = "divisor of the logits, as Granite has"})
          .optional(
              &T::attention_soft_cap,
              {.name = "attention_soft_cap",
               .doc = "soft cap of the attention scores, cap tanh(score / cap), as Gemma 2 has; 0: none",
               .min = 0})
          .optional(&T::logits_soft_cap,
                    {.name = "logits_soft_cap",
                     .doc = "soft cap of the logits, as Gemma 2 and Gemma 3 have; 0: none",
                     .min = 0})
          .optional(&T::position,
                    {.name = "position",
                     .doc = "rope: rotary embedding; alibi: biases of the scores that are linear "
                            "in the distance",
                     .choices = {"rope", "alibi"}})
          .optional(&T::rope_theta, {.name = "rope_theta", .doc = "base of the rotary frequencies", .min = 1})
          .nested(&T::rope_scaling, rope_scaling_fields(),
                  {.name = "rope_scaling", .doc = "rescaling of the rotary frequencies"})
          .optional(&T::layers_without_rope,
                    {.name = "layers_without_rope",
                     .doc = "layers without rotary embedding, from 0, as SmolLM3 has"})
          .optional(&T::window, {.name = "window",
                                 .doc = "number of positions that attention sees, the query's own among them "
                                        "(sliding window); 0: all",
                                 .min = 0,
                                 .max = kLargest})
          .optional(&T::full_attention_layers,
                    {.name = "full_attention_layers",
                     .doc = "layers that have full attention although window is set, from 0"})
          .optional(&T::window_rope_theta,
                    {.name = "window_rope_theta",
                     .doc = "base of the rotary frequencies in layers with a window, where rope_scaling then "
                            "does not apply, as Gemma 3 has; 0: as in all layers",
                     .min = 0})
          .optional(&T::n_experts, {.name = "n_experts",
                                    .doc = "number of experts in place of each MLP; 0: a dense model",
                                    .min = 0,
                                    .max = 65536})
          .optional(&T::experts_per_token, {.name = "experts_per_token",
                                            .doc = "number of experts that a token passes",
                                            .min = 1,
                                            .max = 65536})
          .optional(&T::expert_ffn_dim, {.name = "expert_ffn_dim",
                                         .doc = "inner width of the MLP of an expert; 0: ffn_dim",
                                         .min = 0,
                                         .max = kLargest})
          .optional(&T::shared_expert_ffn_dim,
                    {.name = "shared_expert_ffn_dim",
                     .doc = "inner width of the MLP of an expert that each token passes, with a gate, as "
                            "Qwen 2 MoE; 0: none",
                     .min = 0,
                     .max = kLargest})
          .optional(&T::normalize_router,
                    {.name = "normalize_router",
                     .doc = "divide the router weights of the experts of a token by their sum"})
          .optional(&T::dense_layers, {.name = "dense_layers",
                                       .doc = "layers that have an MLP although n_experts is set, from 0"})
          .optional(&T::tie_embeddings,
                    {.name = "tie_embeddings", .doc = "use the embedding as the weight of the head"})
          .optional(&T::init_std,
                    {.name = "init_std", .doc = "standard deviation of the initial weights", .min = 0})
          .optional(&T::checkpoint, {.name = "checkpoint",
                                     .doc = "folder with config.json and safetensors, which set all other "
                                            "fields; empty: random initial weights"});
  return fields;
}

LlamaSpec llama_from_json(const Json& json, const std::string& where) {
  const LlamaSpec spec = llama_fields().read(json, "model", where);
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
  Json json = llama_fields().write(spec);
  json.erase("checkpoint");
  return json;
}
}  // namespace optrush
