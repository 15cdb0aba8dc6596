#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "optrush/error.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
constexpr int64_t kLargest = int64_t{1} << 31;  // products of two dimensions stay far from overflow

using Refuse = std::function<void(const std::string& what, const std::string& cure)>;

void check_latents(const LlamaSpec& spec, const Refuse& refuse) {
  if (!spec.has_latents()) return;
  if (spec.n_kv_heads != spec.n_heads)
    refuse("model.latent needs as many key/value heads as query heads, but model.n_kv_heads is " +
               std::to_string(spec.n_kv_heads),
           "set model.n_kv_heads = " + std::to_string(spec.n_heads));
  if (spec.latent.rope_dim >= spec.head_size())
    refuse("model.latent.rope_dim (" + std::to_string(spec.latent.rope_dim) +
               ") is not below the width of a head (" + std::to_string(spec.head_size()) + ")",
           "make model.head_dim larger: it contains the rotated dimensions");
}

void check_linear_attention(const LlamaSpec& spec, const Refuse& refuse) {
  const auto check_heads = [&](const char* of, const char* name, int64_t heads, int64_t keys) {
    if (keys != 0 && (heads == 0 || heads % keys != 0))
      refuse("model." + std::string(of) + " (" + std::to_string(heads) + ") is not a multiple of model." +
                 name + " (" + std::to_string(keys) + ")",
             "change one of them: each head of keys must serve the same number of heads of values");
  };
  check_heads("delta_net.value_heads", "delta_net.key_heads", spec.delta_net.value_heads,
              spec.delta_net.key_heads);
  if (spec.has_mamba()) check_heads("mamba.heads", "mamba.groups", spec.mamba.heads, spec.mamba.groups);
}

void check_router(const LlamaSpec& spec, const Refuse& refuse) {
  const auto& [scores, bias, groups, kept, scale] = spec.router;
  if (groups == 1) return;
  const int64_t in_group = spec.n_experts / groups;
  if (spec.n_experts % groups != 0 || in_group < 2)
    refuse("model.router.groups (" + std::to_string(groups) + ") does not divide model.n_experts (" +
               std::to_string(spec.n_experts) + ") into groups of at least 2",
           "change one of them");
  if (kept > groups || spec.experts_per_token > kept * in_group)
    refuse("model.router.kept_groups (" + std::to_string(kept) + ") of " + std::to_string(groups) +
               " groups do not have model.experts_per_token (" + std::to_string(spec.experts_per_token) +
               ") experts",
           "keep more groups, up to all");
}

/// Fields that mean nothing without another field, or beside one.
void check_together(const LlamaSpec& spec, const Refuse& refuse) {
  struct Rule {
    bool broken;
    const char *field, *other, *because;
  };
  const char* linear = spec.linear_attention();
  const bool window = spec.window != 0, experts = spec.n_experts != 0, latent = spec.has_latents(),
             unrotated = spec.position != PositionKind::rope, window_theta = spec.window_rope_theta != 0,
             without_rope = !spec.layers_without_rope.empty(), shared = spec.kv_shared_layers != 0,
             inputs = spec.per_layer_input_dim != 0, without_mlp = !spec.layers_without_mlp.empty();
  const Rule needs[] = {
      {!window && linear == nullptr && !spec.full_attention_layers.empty(), "full_attention_layers", "window",
       "every layer has full attention"},
      {!window && window_theta, "window_rope_theta", "window", "no layer has a window"},
      {!window && spec.full_attention != FullAttention{}, "full_attention", "window",
       "no layer has a window"},
      {spec.full_attention.head_dim != 0 && !window_theta, "full_attention.head_dim", "window_rope_theta",
       "both kinds of heads would share one table of rotations"},
      {!shared && spec.double_wide_mlp, "double_wide_mlp", "kv_shared_layers", "no layer shares keys"},
      {!inputs && spec.per_layer_vocab_size != 0, "per_layer_vocab_size", "per_layer_input_dim",
       "no layer has such an input"},
      {!experts && !spec.dense_layers.empty(), "dense_layers", "n_experts", "every layer has an MLP"},
      {!experts && spec.shared_expert_ffn_dim != 0, "shared_expert_ffn_dim", "n_experts",
       "a dense model has no experts"},
      {!experts && spec.expert_bias, "expert_bias", "n_experts", "a dense model has no experts"},
      {!experts && spec.experts_beside_mlp, "experts_beside_mlp", "n_experts",
       "a dense model has no experts"},
      {spec.experts_beside_mlp && spec.norm_placement != NormPlacement::both, "experts_beside_mlp",
       "norm_placement = \"both\"", "it has norms after the MLP and the experts"},
      {without_mlp && spec.norm_placement != NormPlacement::before, "layers_without_mlp",
       "norm_placement = \"before\"", "such a layer has one norm"},
      {!experts && spec.router != Router{}, "router", "n_experts", "a dense model has no router"}};
  for (const auto& [broken, field, other, because] : needs)
    if (broken)
      refuse("model." + std::string(field) + " without model." + other + ": " + because,
             "set model." + std::string(other) + ", or leave out model." + field);
  const bool after = spec.norm_placement == NormPlacement::after;
  const bool alibi = spec.position == PositionKind::alibi;
  const char* position = alibi ? "position = \"alibi\"" : "position = \"none\"";
  constexpr const char *kUnrotated = "no layer has rotary embedding",
                       *kOther = "latent attention has another form", *kAfter = "norm_placement = \"after\"",
                       *kWithoutNorm = "its blocks begin with a norm";
  const Rule excludes[] = {
      {unrotated && window_theta, "window_rope_theta", position, kUnrotated},
      {unrotated && without_rope, "layers_without_rope", position, kUnrotated},
      {window && linear != nullptr, "window", linear, "full_attention_layers would have two meanings"},
      {spec.has_delta_net() && spec.has_mamba(), "mamba", "delta_net", "a layer has one of them"},
      {spec.experts_beside_mlp && spec.shared_expert_ffn_dim != 0, "experts_beside_mlp",
       "shared_expert_ffn_dim", "the MLP is the shared expert"},
      {spec.layer_scale && without_mlp, "layers_without_mlp", "layer_scale", "such a layer has no factor"},
      {shared && linear != nullptr, "kv_shared_layers", linear, "it has a state in place of keys"},
      {shared && after, "kv_shared_layers", kAfter, kWithoutNorm},
      {inputs && after, "per_layer_input_dim", kAfter, kWithoutNorm},
      {latent && shared, "latent", "kv_shared_layers", kOther},
      {shared && without_mlp, "layers_without_mlp", "kv_shared_layers", "such a layer passes no keys on"},
      {inputs && without_mlp, "layers_without_mlp", "per_layer_input_dim", "such a layer takes no input"},
      {inputs && !spec.has_gate(), "per_layer_input_dim", "activation = \"relu2\"",
       "such an input has a gate"},
      {latent && spec.attention_gate, "latent", "attention_gate", kOther},
      {latent && unrotated, "latent", position, kOther},
      {latent && window_theta, "latent", "window_rope_theta", kOther},
      {latent && without_rope, "latent", "layers_without_rope", kOther},
      {latent && spec.rotary_fraction != 1, "latent", "rotary_fraction", kOther},
      {latent && spec.rope_scaling.query_beta != 0, "latent", "rope_scaling.query_beta", kOther},
      {latent && spec.qk_norm != QkNorm::none, "latent", "qk_norm", kOther},
      {latent && spec.attention_sinks, "latent", "attention_sinks", kOther},
      {latent && spec.value_norm, "latent", "value_norm", kOther},
      {latent && spec.full_attention != FullAttention{}, "latent", "full_attention", kOther},
      {spec.full_attention.head_dim != 0 && spec.rotary_fraction != 1, "full_attention.head_dim",
       "rotary_fraction", "heads of two widths would have two numbers of rotated dimensions"},
      {latent && spec.attention_bias == AttentionBias::qkv, "latent", "attention_bias = \"qkv\"", kOther}};
  for (const auto& [broken, field, other, because] : excludes)
    if (broken)
      refuse("model." + std::string(field) + " with model." + other + ": " + because,
             "leave out one of them");
}

void check_llama(const LlamaSpec& spec, const std::string& where) {
  const auto refuse = [&](const std::string& what, const std::string& cure) {
    throw Error(ErrorCode::invalid_value, what, cure, where);
  };
  const auto text = [](int64_t n) { return std::to_string(n); };
  if (spec.head_dim == 0 && spec.dim % spec.n_heads != 0)
    refuse(
        "model.dim (" + text(spec.dim) + ") is not a multiple of model.n_heads (" + text(spec.n_heads) + ")",
        "change one of them, or give model.head_dim");
  if (spec.position == PositionKind::rope && (spec.rotary_size() % 2 != 0 || spec.rotary_size() == 0))
    refuse("a head of " + text(spec.rotary_size()) + " dimensions cannot be rotated",
           "rotary embedding needs pairs of dimensions: make model.head_dim, or model.dim / model.n_heads, "
           "even");
  for (const auto& [field, heads] : {std::pair("n_kv_heads", spec.n_kv_heads),
                                     std::pair("full_attention.kv_heads", spec.full_attention.kv_heads)})
    if (heads != 0 && spec.n_heads % heads != 0)
      refuse("model.n_heads (" + text(spec.n_heads) + ") is not a multiple of model." + field + " (" +
                 text(heads) + ")",
             "change one of them: each key/value head must serve the same number of query heads");
  if (spec.full_attention.head_dim % 2 != 0)
    refuse("model.full_attention.head_dim (" + text(spec.full_attention.head_dim) + ") is odd",
           "rotary embedding needs pairs of dimensions");
  if (const auto& rope = spec.rope_scaling; rope.rescales()) {
    if (rope.type == RopeType::llama3 && rope.low_freq_factor >= rope.high_freq_factor)
      refuse("model.rope_scaling.low_freq_factor must be below high_freq_factor", "Llama 3.1 uses 1 and 4");
    if (rope.type == RopeType::yarn && rope.beta_slow >= rope.beta_fast)
      refuse("model.rope_scaling.beta_slow must be below beta_fast", "YaRN uses 1 and 32");
    if (rope.type == RopeType::yarn && rope.beta_slow <= 0)
      refuse("model.rope_scaling.beta_slow must be positive", "YaRN uses 1");
    const int64_t pairs = spec.rotary_size() / 2;
    if (rope.type == RopeType::longrope &&
        (std::ssize(rope.short_factor) != pairs || std::ssize(rope.long_factor) != pairs))
      refuse("model.rope_scaling.short_factor and long_factor have " + text(std::ssize(rope.short_factor)) +
                 " and " + text(std::ssize(rope.long_factor)) + " numbers",
             "give each " + text(pairs) + " numbers, one for each rotated pair of dimensions");
  }
  check_together(spec, refuse);
  check_latents(spec, refuse);
  check_linear_attention(spec, refuse);
  check_router(spec, refuse);
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
  check_layers("dense_layers", spec.dense_layers);
  check_layers("layers_without_mlp", spec.layers_without_mlp);
  for (const int64_t layer : spec.dense_layers)
    if (!spec.has_mlp(layer))
      refuse("model.dense_layers and model.layers_without_mlp both list layer " + text(layer),
             "leave it out of one of them");
  check_carried(spec, where);
  if (spec.n_experts > 0 && spec.experts_per_token > spec.n_experts)
    refuse("model.experts_per_token (" + text(spec.experts_per_token) + ") is above model.n_experts (" +
               text(spec.n_experts) + ")",
           "change one of them");
  for (const auto& [field, value] :
       {std::pair("embedding_scale", spec.embedding_scale), std::pair("residual_scale", spec.residual_scale),
        std::pair("logits_divisor", spec.logits_divisor)})
    if (value == 0)
      refuse("model." + std::string(field) + " is 0: the model would compute nothing",
             "leave it out for 1, or give another number");
}
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
