#include "spec/llama_checks.h"

#include <functional>
#include <utility>

#include "optrush/error.h"
#include "spec/spec_json.h"

namespace optrush {
namespace {
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
}  // namespace

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
}  // namespace optrush
