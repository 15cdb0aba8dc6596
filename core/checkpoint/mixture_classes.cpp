#include "checkpoint/mixture_classes.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "checkpoint/nemotron_h.h"
#include "spec/value.h"

namespace optrush {
namespace {
// Fields that most classes have, with the class's value of a missing key.
SameField per_token(int64_t otherwise) {
  return {"num_experts_per_tok", "/experts_per_token", "integer", otherwise};
}
SameField normalized(bool otherwise) { return {"norm_topk_prob", "/normalize_router", "boolean", otherwise}; }
SameField width(int64_t otherwise) {
  return {"moe_intermediate_size", "/expert_ffn_dim", "integer", otherwise};
}

/// With it, transformers adds a loss.
void check_no_router_loss(const ConfigFields& config) {
  check_constant(
      config, "output_router_logits", false,
      "with which transformers adds the load-balancing loss of the router to the loss; a plugin can "
      "add it to a training run (see docs/guides/models_and_data.md)");
}

/// transformers 5 and 4 name the number of experts of one class differently.
void read_experts(const ConfigFields& config, Json& fields) {
  check_no_router_loss(config);
  const bool local = config["num_experts"].is_null() && !config["num_local_experts"].is_null();
  fields["n_experts"] = config.value(local ? "num_local_experts" : "num_experts", "integer");
  if (const Json& other = config["num_local_experts"]; !other.is_null() && other != fields["n_experts"])
    config.refuse("'num_experts' is " + shown(config["num_experts"]) + ", but 'num_local_experts' is " +
                      shown(other) + "; versions of transformers read different ones",
                  "remove the wrong one");
}
void write_experts(const LlamaSpec& spec, Json& config) {
  name_experts(spec.n_experts, config);
  config["output_router_logits"] = false;
}
constexpr FieldGroup kExperts = {read_experts, write_experts};

/// Layers with an MLP in place of experts: those in "mlp_only_layers" and those that "decoder_sparse_step"
/// does not divide.
void read_dense_layers(const ConfigFields& config, Json& fields) {
  const int64_t step = config.value("decoder_sparse_step", "integer", 1).get<int64_t>();
  if (step < 1) config.refuse("'decoder_sparse_step' is " + std::to_string(step), "it must be at least 1");
  const Json& dense = config["mlp_only_layers"];
  if (!dense.is_null() && !dense.is_array())
    config.refuse("'mlp_only_layers' is " + shown(dense), "it must be a list of layers");
  Json layers = Json::array();
  for (int64_t layer = 0; layer < layers_of(config); ++layer)
    if ((layer + 1) % step != 0 || (!dense.is_null() && std::ranges::find(dense, Json(layer)) != dense.end()))
      layers.push_back(layer);
  fields["dense_layers"] = layers;
}
void write_dense_layers(const LlamaSpec& spec, Json& config) {
  config["mlp_only_layers"] = spec.dense_layers;
  config["decoder_sparse_step"] = 1;
}
constexpr FieldGroup kDenseLayers = {read_dense_layers, write_dense_layers};

void read_mixtral(const ConfigFields& config, Json& fields) {
  check_constant(config, "router_jitter_noise", 0.0);
  read_window(config, 0, fields);
}

/// `width`: the class's value of a missing key.
template <int64_t width>
void read_shared_expert(const ConfigFields& config, Json& fields) {
  if (fields["n_experts"] != 0)
    fields["shared_expert_ffn_dim"] = config.value("shared_expert_intermediate_size", "integer", width);
}
void write_shared_expert(const LlamaSpec& spec, Json& config) {
  // the classes require a size above 0
  config["shared_expert_intermediate_size"] = std::max<int64_t>(1, spec.shared_expert_ffn_dim);
}

void read_qwen2_moe(const ConfigFields& config, Json& fields) {
  if (config.value("qkv_bias", "boolean", true)) fields["attention_bias"] = "qkv";
  check_constant(config, "use_sliding_window", false,
                 "but the layers with a window then depend on the attention kernel");
}
void write_qwen2_moe(const LlamaSpec& spec, Json& config) {
  config["qkv_bias"] = spec.attention_bias == AttentionBias::qkv;
  config["use_sliding_window"] = false;
}

void read_qwen3_moe(const ConfigFields& config, Json& fields) {
  if (config.value("use_sliding_window", "boolean", false)) read_window(config, 4096, fields);
}
void write_qwen3_moe(const LlamaSpec& spec, Json& config) {
  config["use_sliding_window"] = spec.window != 0;
  write_window(spec, config);
}

void write_olmoe(const LlamaSpec&, Json& config) { config["clip_qkv"] = nullptr; }

/// Defaults of the classes with the router of DeepSeek V3.
struct Grouped {
  int64_t count, width, groups, kept_groups;
  double scale;
};

std::vector<SameField> mixture_in_groups(const Grouped& defaults, std::vector<SameField> more = {}) {
  std::vector<SameField> fields = {{"n_routed_experts", "/n_experts", "integer", defaults.count},
                                   {"n_group", "/router/groups", "integer", defaults.groups},
                                   {"topk_group", "/router/kept_groups", "integer", defaults.kept_groups},
                                   {"routed_scaling_factor", "/router/scale", "number", defaults.scale},
                                   per_token(8),
                                   normalized(true),
                                   width(defaults.width)};
  std::ranges::move(more, std::back_inserter(fields));
  return fields;
}

/// `first`: default of the number of dense layers, which come first.
template <int64_t first>
void read_grouped_experts(const ConfigFields& config, Json& fields) {
  check_no_router_loss(config);
  fields["shared_expert_ffn_dim"] =
      fields["expert_ffn_dim"].get<int64_t>() * config.value("n_shared_experts", "integer", 1).get<int64_t>();
  fields["dense_layers"] = Json::array();
  const auto dense = config.value("first_k_dense_replace", "integer", first).get<int64_t>();
  for (int64_t layer = 0; layer < std::min(layers_of(config), dense); ++layer)
    fields["dense_layers"].push_back(layer);
}
void write_grouped_experts(const LlamaSpec& spec, Json& config) {
  const int64_t one = std::max<int64_t>(1, spec.expert_ffn_dim);
  config["n_shared_experts"] = std::max<int64_t>(1, spec.shared_expert_ffn_dim / one);
  config["first_k_dense_replace"] = spec.dense_layers.size();
}

void read_glm4_moe(const ConfigFields& config, Json& fields) {
  if (config.value("attention_bias", "boolean", false)) fields["attention_bias"] = "qkv";
  if (config.value("use_qk_norm", "boolean", false)) fields["qk_norm"] = "per_head";
}
void write_glm4_moe(const LlamaSpec& spec, Json& config) {
  config["attention_bias"] = spec.attention_bias == AttentionBias::qkv;
  config["use_qk_norm"] = spec.qk_norm == QkNorm::per_head;
}

void read_deepseek_v3(const ConfigFields& config, Json& fields) {
  Json& latent = fields["latent"];
  latent["q_rank"] = config.value("q_lora_rank", "integer", config.contains("q_lora_rank") ? 0 : 1536);
  fields["head_dim"] =
      config.value("qk_nope_head_dim", "integer", 128).get<int64_t>() + latent["rope_dim"].get<int64_t>();
}
void write_deepseek_v3(const LlamaSpec& spec, Json& config) {
  const LatentAttention& latent = spec.latent;
  config["head_dim"] = latent.rope_dim;
  config["qk_nope_head_dim"] = spec.head_size() - latent.rope_dim;
  config["q_lora_rank"] = latent.q_rank == 0 ? Json() : Json(latent.q_rank);
}

void read_gpt_oss(const ConfigFields& config, Json& fields) {
  for (const auto& [key, value] : {std::pair("swiglu_limit", 7.0), std::pair("swiglu_alpha", 1.702)})
    check_constant(config, key, value, "which transformers 4 ignores");
  check_constant(config, "attention_bias", true, "but this class always has biases");
  read_windows(
      config, window_of(config, 128), [](int64_t layer) { return layer % 2 == 0; }, fields);
}

/// The width of the MLP of a dense model is "shared_intermediate_size". Otherwise it is the shared expert's,
/// and "intermediate_size" is the width of an expert.
void read_granite_hybrid(const ConfigFields& config, Json& fields) {
  check_no_router_loss(config);
  check_constant(config, "hidden_act", "silu", "which the short convolution does not support");
  check_constant(config, "head_dim",
                 fields["dim"].get<int64_t>() / std::max<int64_t>(1, fields["n_heads"].get<int64_t>()),
                 "but this class divides hidden_size among the heads");
  const bool dense = fields["n_experts"] == 0;
  fields[dense ? "ffn_dim" : "shared_expert_ffn_dim"] =
      config.value("shared_intermediate_size", "integer", 1024);
  if (!dense) fields["shared_expert_gate"] = false;
  fields["position"] = config["position_embedding_type"] == "rope" ? "rope" : "none";
}
void write_granite_hybrid(const LlamaSpec& spec, Json& config) {
  config["intermediate_size"] = spec.ffn_dim;
  config["shared_intermediate_size"] =
      std::max<int64_t>(1, spec.n_experts == 0 ? spec.ffn_dim : spec.shared_expert_ffn_dim);
  config["output_router_logits"] = false;
  config["position_embedding_type"] = spec.position == PositionKind::rope ? "rope" : "nope";
}

/// Without "layer_types", all layers have Mamba 2.
void read_mamba(const ConfigFields& config, Json& fields) {
  check_constant(config, "mamba_n_groups", 1, "for which versions of transformers have different norms");
  check_step_limit(config);
  Json& mamba = fields["mamba"];
  mamba["head_dim"] = config.value("mamba_expand", "integer", 2).get<int64_t>() *
                      fields["dim"].get<int64_t>() / std::max<int64_t>(1, mamba["heads"].get<int64_t>());
  if (config["mamba_d_head"] != "auto")
    check_constant(config, "mamba_d_head", mamba["head_dim"],
                   "but mamba_expand x hidden_size / mamba_n_heads is another number");
  if (!config["layer_types"].is_null()) read_linear_layers(config, fields);
}
void write_mamba(const LlamaSpec& spec, Json& config) {
  // The class requires valid sizes also without such layers.
  const Mamba2 shape = spec.has_mamba() ? spec.mamba : Mamba2{.heads = 1, .head_dim = spec.dim};
  config["mamba_n_heads"] = shape.heads;
  config["mamba_d_head"] = shape.head_dim;
  config["mamba_n_groups"] = shape.groups;
  config["mamba_expand"] = shape.values() / spec.dim;
  write_layer_types(spec, config);
  name_mamba_layers(config);
}

/// The tensor of one or several linears of all experts.
JoinedTensor of_all_experts(const char* name, const char* part, std::vector<std::string> linears) {
  JoinedTensor joined{.name = name, .alternating = linears.size() > 1, .transposed = true};
  for (const std::string& linear : linears) joined.parts.push_back("mlp.experts.*." + linear + part);
  return joined;
}
}  // namespace

void name_experts(int64_t experts, Json& config) {
  for (const char* name : {"num_experts", "num_local_experts"}) config[name] = experts;
}

std::vector<Architecture> mixture_classes() {
  const Json always_grouped = {{"shared_expert_gate", false},
                               {"router", {{"scores", "sigmoid"}, {"bias", "choice"}}}};
  return {
      {.name = "MixtralForCausalLM",
       .base = "MixtralModel",
       .model_type = "mixtral",
       .max_positions = 131072,
       .norm_eps = 1e-5,
       .rope_theta = 1e6,
       .kv_heads = 8,
       .storage = {ParameterNames::mixtral},
       .same = {per_token(2)},
       .groups = {kExperts, {read_mixtral, write_window}}},
      {.name = "Qwen2MoeForCausalLM",
       .base = "Qwen2MoeModel",
       .model_type = "qwen2_moe",
       .max_positions = 32768,
       .kv_heads = 16,
       .storage = {.expert_adapters_need_4 = true},
       .same = {per_token(4), normalized(false), width(1408)},
       .groups = {kExperts,
                  kDenseLayers,
                  {read_shared_expert<5632>, write_shared_expert},
                  {read_qwen2_moe, write_qwen2_moe}}},
      {.name = "Qwen3MoeForCausalLM",
       .base = "Qwen3MoeModel",
       .model_type = "qwen3_moe",
       .max_positions = 32768,
       .kv_heads = 4,
       .always = {{"qk_norm", "per_head"}},
       .same = {per_token(8), normalized(false), width(768)},
       .groups = {{read_attention_bias, write_attention_bias},
                  kExperts,
                  kDenseLayers,
                  {read_qwen3_moe, write_qwen3_moe}}},
      {.name = "Qwen3NextForCausalLM",
       .base = "Qwen3NextModel",
       .model_type = "qwen3_next",
       .max_positions = 32768,
       .kv_heads = 2,
       .head_dim = 256,
       .rotary = {.fraction = 0.25},
       .storage = {.norm_offset = 1, .ignored = "mtp."},
       .always = {{"qk_norm", "per_head"}, {"attention_gate", true}, {"delta_net", {{"joined", true}}}},
       .same = with_delta_net({per_token(10), normalized(true), width(512)}),
       .groups = {{read_attention_bias, write_attention_bias},
                  kExperts,
                  kDenseLayers,
                  {read_shared_expert<512>, write_shared_expert},
                  {read_linear_layers, write_layer_types}}},
      {.name = "Qwen3_5MoeForCausalLM",
       .base = "Qwen3_5MoeTextModel",
       .model_type = "qwen3_5_moe_text",
       .max_positions = 32768,
       .kv_heads = 2,
       .head_dim = 256,
       .rotary = {.fraction = 0.25, .images = true},
       .storage = {.norm_offset = 1,
                   .joined_or_apart = {{"mlp.experts.gate_up_proj",
                                        {"mlp.experts.*.gate_proj.weight", "mlp.experts.*.up_proj.weight"}},
                                       {"mlp.experts.down_proj", {"mlp.experts.*.down_proj.weight"}}},
                   .ignored = "mtp."},
       .ffn_dim = "moe_intermediate_size",
       .always = {{"qk_norm", "per_head"}, {"attention_gate", true}},
       .same = with_delta_net({per_token(8), width(512)}),
       .groups = {{read_attention_bias, write_attention_bias},
                  kExperts,
                  {read_shared_expert<512>, write_shared_expert},
                  {read_linear_layers, write_layer_types}}},
      {.name = "OlmoeForCausalLM",
       .base = "OlmoeModel",
       .model_type = "olmoe",
       .max_positions = 4096,
       .norm_eps = 1e-5,
       .always = {{"qk_norm", "whole"}},
       .same = {per_token(8), normalized(false)},
       .groups = {{read_attention_bias, write_attention_bias}, kExperts, {nullptr, write_olmoe}}},
      {.name = "Glm4MoeForCausalLM",
       .base = "Glm4MoeModel",
       .model_type = "glm4_moe",
       .max_positions = 131072,
       .norm_eps = 1e-5,
       .kv_heads = 8,
       .rotary = {.fraction = 0.5},
       .storage = {.names = ParameterNames::deepseek, .prediction_layer = true},
       .always = always_grouped,
       .same = mixture_in_groups({.count = 128, .width = 1408, .groups = 1, .kept_groups = 1, .scale = 1}),
       .groups = {{read_grouped_experts<1>, write_grouped_experts}, {read_glm4_moe, write_glm4_moe}}},
      {.name = "DeepseekV3ForCausalLM",
       .base = "DeepseekV3Model",
       .model_type = "deepseek_v3",
       .max_positions = 4096,
       .rotary = {.mscale = true},
       .storage = {.names = ParameterNames::deepseek, .prediction_layer = true},
       .always = always_grouped,
       .same = mixture_in_groups({.count = 256, .width = 2048, .groups = 8, .kept_groups = 4, .scale = 2.5},
                                 {{"kv_lora_rank", "/latent/kv_rank", "integer", 512},
                                  {"qk_rope_head_dim", "/latent/rope_dim", "integer", 64},
                                  {"v_head_dim", "/latent/value_dim", "integer", 128},
                                  {"rope_interleave", "/latent/interleaved", "boolean", true}}),
       .groups = {{read_attention_bias, write_attention_bias},
                  {read_grouped_experts<3>, write_grouped_experts},
                  {read_deepseek_v3, write_deepseek_v3}}},
      {.name = "GptOssForCausalLM",
       .base = "GptOssModel",
       .model_type = "gpt_oss",
       .max_positions = 131072,
       .norm_eps = 1e-5,
       .rope_theta = 150000,
       .kv_heads = 8,
       .head_dim = 64,
       .rotary = {.required = true},
       .storage = {.names = ParameterNames::gpt_oss,
                   .joined = {of_all_experts("mlp.experts.gate_up_proj", ".weight", {"gate_proj", "up_proj"}),
                              of_all_experts("mlp.experts.gate_up_proj_bias", ".bias",
                                             {"gate_proj", "up_proj"}),
                              of_all_experts("mlp.experts.down_proj", ".weight", {"down_proj"}),
                              of_all_experts("mlp.experts.down_proj_bias", ".bias", {"down_proj"})},
                   .mxfp4 = true},
       .always = {{"activation", "clamped_silu"},
                  {"attention_bias", "all"},
                  {"attention_sinks", true},
                  {"expert_bias", true},
                  {"router", {{"bias", "logits"}}}},
       .same = {per_token(4)},
       .groups = {kExperts, {read_gpt_oss, write_layer_types}}},
      {.name = "GraniteMoeHybridForCausalLM",
       .base = "GraniteMoeHybridModel",
       .model_type = "granitemoehybrid",
       .storage = {.names = ParameterNames::granite,
                   .joined = {{"shared_mlp.input_linear.weight",
                               {"mlp.gate_proj.weight", "mlp.up_proj.weight",
                                "mlp.shared_expert.gate_proj.weight", "mlp.shared_expert.up_proj.weight"}},
                              {"shared_mlp.output_linear.weight",
                               {"mlp.down_proj.weight", "mlp.shared_expert.down_proj.weight"}},
                              {"mlp.gate.layer.weight", {"mlp.gate.weight"}},
                              {"mlp.input_linear.weight",
                               {"mlp.experts.*.gate_proj.weight", "mlp.experts.*.up_proj.weight"}},
                              {"mlp.output_linear.weight", {"mlp.experts.*.down_proj.weight"}}}},
       .same = with_granite_scales({{"num_local_experts", "/n_experts", "integer", 8},
                                    per_token(2),
                                    {"mamba_n_heads", "/mamba/heads", "integer", 128},
                                    {"mamba_d_state", "/mamba/state", "integer", 256},
                                    {"mamba_d_conv", "/mamba/kernel", "integer", 4},
                                    {"mamba_conv_bias", "/mamba/convolution_bias", "boolean", true},
                                    {"mamba_proj_bias", "/mamba/projection_bias", "boolean", false}}),
       .groups = {{read_attention_bias, write_attention_bias},
                  {read_attention_multiplier, write_attention_multiplier},
                  {read_granite_hybrid, write_granite_hybrid},
                  {read_mamba, write_mamba}}},
      nemotron_h(),
  };
}
}  // namespace optrush
