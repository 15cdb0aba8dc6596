#include "checkpoint/architectures.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/mixture_classes.h"
#include "spec/spec_json.h"
#include "spec/value.h"

namespace optrush {
namespace {
constexpr const char* kKvHeads = "num_key_value_heads";
constexpr double kEpsOfOlmo = 1e-5;  // a constant of the class, not a field of its config.json

constexpr FieldGroup kAttentionBias = {read_attention_bias, write_attention_bias};

constexpr FieldGroup kNoMlpBias = {
    [](const ConfigFields& config, Json&) { check_constant(config, "mlp_bias", false); },
    [](const LlamaSpec&, Json& config) { config["mlp_bias"] = false; }};

/// `window`: the class's value of a missing key.
template <int64_t window>
void read_without_biases(const ConfigFields& config, Json& fields) {
  check_constant(config, "attention_bias", false, "but this class has no biases");
  for (const char* dropout : {"resid_pdrop", "embd_pdrop"}) check_constant(config, dropout, 0.0);
  read_window(config, window, fields);
}

void read_windows_of_qwen(const ConfigFields& config, Json& fields) {
  const bool used = config.value("use_sliding_window", "boolean", false);
  const int64_t first = config.value("max_window_layers", "integer", 28).get<int64_t>();
  read_windows(
      config, used ? window_of(config, 4096) : 0, [&](int64_t layer) { return layer >= first; }, fields);
}
void write_windows_of_qwen(const LlamaSpec& spec, Json& config) {
  write_layer_types(spec, config);
  config["use_sliding_window"] = spec.window != 0;
  int64_t first = 0;  // earlier versions of transformers do not read layer_types
  while (first < spec.n_layers && spec.window_of(first) == 0) ++first;
  config["max_window_layers"] = first;
}

constexpr FieldGroup kWindowsOfQwen = {read_windows_of_qwen, write_windows_of_qwen};

void write_olmo(const LlamaSpec&, Json& config) {
  config["clip_qkv"] = nullptr;
  config.erase("rms_norm_eps");
}

void read_olmo3(const ConfigFields& config, Json& fields) {
  read_windows(
      config, window_of(config, 4096), [](int64_t layer) { return (layer + 1) % 4 != 0; }, fields);
  // "rope_scaling" belongs to the layers with full attention.
  if (fields.contains("window") && fields.contains("rope_scaling"))
    fields["window_rope_theta"] = fields["rope_theta"];
}

void read_gemma(const ConfigFields& config, Json& fields) {
  check_constant(config, "use_bidirectional_attention", false, "but this program trains causal models");
  fields["embedding_scale"] = std::sqrt(config.value("hidden_size", "integer").get<double>());
}

void read_gemma1(const ConfigFields& config, Json& fields) {
  read_gemma(config, fields);
  if (config["hidden_act"] == "gelu")
    config.refuse(
        "'hidden_act' is \"gelu\", which transformers 4 computes exactly and transformers 5 by tanh",
        "set it to \"gelu_pytorch_tanh\", with which Google trained Gemma");
}

void read_gemma2(const ConfigFields& config, Json& fields) {
  read_gemma(config, fields);
  read_query_scalar(config, fields);
  fields["attention_soft_cap"] = soft_cap_of(config, "attn_logit_softcapping", 50);
  fields["logits_soft_cap"] = soft_cap_of(config, "final_logit_softcapping", 30);
  read_windows(
      config, window_of(config, 4096), [](int64_t layer) { return layer % 2 == 0; }, fields);
}
void write_gemma2(const LlamaSpec& spec, Json& config) {
  write_layer_types(spec, config);
  write_query_scalar(spec, config);
  config["attn_logit_softcapping"] = written_soft_cap(spec.attention_soft_cap);
  config["final_logit_softcapping"] = written_soft_cap(spec.logits_soft_cap);
}

void read_gemma3(const ConfigFields& config, Json& fields) {
  check_constant(config, "attn_logit_softcapping", nullptr, "which this class ignores in transformers 4");
  read_gemma(config, fields);
  read_query_scalar(config, fields);
  fields["logits_soft_cap"] = soft_cap_of(config, "final_logit_softcapping", 0);
  const int64_t pattern = config.value("sliding_window_pattern", "integer", 6).get<int64_t>();
  if (pattern < 1)
    config.refuse("'sliding_window_pattern' is " + std::to_string(pattern), "it must be at least 1");
  read_windows(
      config, window_of(config, 4096), [&](int64_t layer) { return (layer + 1) % pattern != 0; }, fields);
}
void write_gemma3(const LlamaSpec& spec, Json& config) {
  write_layer_types(spec, config);
  write_query_scalar(spec, config);
  config["final_logit_softcapping"] = written_soft_cap(spec.logits_soft_cap);
}

/// Heads of layers with full attention: "global_head_dim" and "num_global_key_value_heads", or
/// "per_layer_config", in which newer versions of transformers write them.
void read_full_heads(const ConfigFields& config, Json& fields) {
  constexpr int64_t kUsual = 512;
  Json& full = fields["full_attention"];
  const bool shared = config.value("attention_k_eq_v", "boolean", false);
  full["keys_as_values"] = shared;
  const Json& by_layer = config["per_layer_config"];
  if (!by_layer.is_object()) {
    full["head_dim"] = config.value("global_head_dim", "integer", kUsual);
    if (shared) full["kv_heads"] = config.value("num_global_key_value_heads", "integer", 0);
    return;
  }
  Json layers = Json::array();
  for (const auto& [layer, heads] : by_layer.items()) {
    const bool known = heads.is_object() && heads.size() == heads.count("head_dim") + heads.count(kKvHeads);
    if (!known || heads != *by_layer.begin())
      config.refuse("'per_layer_config' has " + shown(heads) + " for layer " + layer,
                    "supported: one 'head_dim' and 'num_key_value_heads' for all layers with full attention");
    layers.push_back(std::strtoll(layer.c_str(), nullptr, 10));
  }
  if (layers.empty()) return;
  if (layers != fields["full_attention_layers"])
    config.refuse("'per_layer_config' lists the layers " + layers.dump(),
                  "supported: the layers with full attention, " + fields["full_attention_layers"].dump());
  full["head_dim"] = by_layer.begin()->value("head_dim", Json(0));
  full["kv_heads"] = by_layer.begin()->value(kKvHeads, Json(0));
}

void read_gemma4(const ConfigFields& config, Json& fields) {
  check_constant(config, "use_bidirectional_attention", "vision", "but this program trains causal models");
  constexpr int64_t kWidthOfInputs = 256, kTokens = 262144;
  fields["per_layer_input_dim"] = config.value("hidden_size_per_layer_input", "integer", kWidthOfInputs);
  if (fields["per_layer_input_dim"] != 0)
    fields["per_layer_vocab_size"] = config.value("vocab_size_per_layer_input", "integer", kTokens);
  fields["kv_shared_layers"] = config.value("num_kv_shared_layers", "integer", 0);
  if (fields["kv_shared_layers"] != 0)
    fields["double_wide_mlp"] = config.value("use_double_wide_mlp", "boolean", false);
  if (config.value("enable_moe_block", "boolean", false)) {
    fields["experts_beside_mlp"] = true;
    fields["n_experts"] = config.value("num_experts", "integer");
    fields["experts_per_token"] = config.value("top_k_experts", "integer");
    fields["expert_ffn_dim"] = config.value("moe_intermediate_size", "integer");
  }
  fields["embedding_scale"] = std::sqrt(config.value("hidden_size", "integer").get<double>());
  fields["logits_soft_cap"] = soft_cap_of(config, "final_logit_softcapping", 0);
  const int64_t layers = layers_of(config);
  constexpr int64_t kPattern = 6;
  read_windows(
      config, window_of(config, 512),
      [&](int64_t layer) { return (layer + 1) % kPattern != 0 && layer + 1 != layers; }, fields);
  if (!fields.contains("window") || fields["full_attention_layers"].empty() ||
      fields["full_attention_layers"].back() != layers - 1)
    config.refuse("'layer_types' is " + shown(config["layer_types"]),
                  "a layer must have a window, and the last one full attention");
  read_full_heads(config, fields);
}
void write_gemma4(const LlamaSpec& spec, Json& config) {
  write_layer_types(spec, config);
  const auto& [head_dim, kv_heads, shared] = spec.full_attention;
  config["global_head_dim"] = head_dim != 0 ? head_dim : spec.head_size();
  config["num_global_key_value_heads"] = kv_heads == 0 ? Json() : Json(kv_heads);
  config["attention_k_eq_v"] = shared;
  config["final_logit_softcapping"] = written_soft_cap(spec.logits_soft_cap);
  config["enable_moe_block"] = spec.experts_beside_mlp;
  config["num_experts"] = spec.n_experts == 0 ? Json() : Json(spec.n_experts);
  config["top_k_experts"] = spec.experts_per_token;
  config["moe_intermediate_size"] = spec.expert_ffn_dim;
  config["hidden_size_per_layer_input"] = spec.per_layer_input_dim;
  config["vocab_size_per_layer_input"] = spec.per_layer_vocab();
  config["num_kv_shared_layers"] = spec.kv_shared_layers;
  config["use_double_wide_mlp"] = spec.double_wide_mlp;
}

void read_smollm3(const ConfigFields& config, Json& fields) {
  const int64_t layers = layers_of(config);
  const Json& flags = config["no_rope_layers"];  // 1 means that the layer has a rotary embedding
  const int64_t interval = config.value("no_rope_layer_interval", "integer", 4).get<int64_t>();
  if (!flags.is_null() &&
      (!flags.is_array() || std::ssize(flags) < layers ||
       !std::ranges::all_of(flags, [](const Json& flag) { return flag == 0 || flag == 1; })))
    config.refuse("'no_rope_layers' is " + shown(flags),
                  "it must be a list with 0 or 1 for each of the " + std::to_string(layers) + " layers");
  if (flags.is_null() && interval < 1)
    config.refuse("'no_rope_layer_interval' is " + std::to_string(interval), "it must be at least 1");
  const auto rotates = [&](int64_t layer) {
    return flags.is_null() ? (layer + 1) % interval != 0 : flags.at(static_cast<size_t>(layer)) == 1;
  };
  Json without = Json::array();
  for (int64_t layer = 0; layer < layers; ++layer)
    if (!rotates(layer)) without.push_back(layer);
  fields["layers_without_rope"] = without;
  const bool windows = config.value("use_sliding_window", "boolean", false);
  read_windows(
      config, windows ? window_of(config, 0) : 0, [&](int64_t layer) { return !rotates(layer); }, fields);
}
void write_smollm3(const LlamaSpec& spec, Json& config) {
  write_layer_types(spec, config);
  config["use_sliding_window"] = spec.window != 0;
  config["no_rope_layers"] = Json::array();
  for (int64_t layer = 0; layer < spec.n_layers; ++layer)
    config["no_rope_layers"].push_back(spec.rotates(layer) ? 1 : 0);
}
}  // namespace

void Architecture::read(const ConfigFields& config, Json& fields) const {
  fields.update(always);
  for (const SameField& field : same)
    fields[Json::json_pointer(field.ours)] = config.value(field.theirs, field.type, field.otherwise);
  for (const FieldGroup& group : groups)
    if (group.read != nullptr) group.read(config, fields);
}

void Architecture::write(const LlamaSpec& spec, Json& config) const {
  Json fields = to_json(spec);
  fields["router"] = record::written(spec.router);  // also if they have their defaults
  fields["latent"] = record::written(spec.latent);
  fields["delta_net"] = record::written(spec.delta_net);
  fields["mamba"] = record::written(spec.mamba);
  for (const SameField& field : same) config[field.theirs] = fields.at(Json::json_pointer(field.ours));
  for (const FieldGroup& group : groups)
    if (group.write != nullptr) group.write(spec, config);
}

namespace {
std::vector<Architecture> dense_classes() {
  return {
      {.name = "LlamaForCausalLM",
       .base = "LlamaModel",
       .model_type = "llama",
       .groups = {kAttentionBias, kNoMlpBias}},
      {.name = "MistralForCausalLM",
       .base = "MistralModel",
       .model_type = "mistral",
       .max_positions = 131072,
       .kv_heads = 8,
       .groups = {{read_without_biases<4096>, write_window}}},
      {.name = "Ministral3ForCausalLM",
       .base = "Ministral3Model",
       .model_type = "ministral3",
       .max_positions = 262144,
       .norm_eps = 1e-5,
       .rope_theta = 1e6,
       .kv_heads = 8,
       .head_dim = 128,
       .rotary = {.queries = true, .required = true},
       .groups = {{read_without_biases<0>, write_window}}},
      {.name = "Phi3ForCausalLM",
       .base = "Phi3Model",
       .model_type = "phi3",
       .max_positions = 4096,
       .norm_eps = 1e-5,
       .rotary = {.fraction = 1, .original = 4096},
       .rope_type_key = "type",
       .storage = {.joined = {{"self_attn.qkv_proj.weight",
                               {"self_attn.q_proj.weight", "self_attn.k_proj.weight",
                                "self_attn.v_proj.weight"}},
                              {"mlp.gate_up_proj.weight", {"mlp.gate_proj.weight", "mlp.up_proj.weight"}}}},
       .groups = {{read_without_biases<0>, write_window}}},
      {.name = "Qwen2ForCausalLM",
       .base = "Qwen2Model",
       .model_type = "qwen2",
       .max_positions = 32768,
       .kv_heads = 32,
       .always = {{"attention_bias", "qkv"}},
       .groups = {kWindowsOfQwen}},
      {.name = "Qwen3ForCausalLM",
       .base = "Qwen3Model",
       .model_type = "qwen3",
       .max_positions = 32768,
       .kv_heads = 32,
       .head_dim = 128,
       .always = {{"qk_norm", "per_head"}},
       .groups = {kAttentionBias, kWindowsOfQwen}},
      {.name = "Qwen3_5ForCausalLM",
       .base = "Qwen3_5TextModel",
       .model_type = "qwen3_5_text",
       .max_positions = 32768,
       .kv_heads = 4,
       .head_dim = 256,
       .rotary = {.fraction = 0.25, .images = true},
       .storage = {.norm_offset = 1, .ignored = "mtp."},
       .always = {{"qk_norm", "per_head"}, {"attention_gate", true}},
       .same = with_delta_net(),
       .groups = {kAttentionBias, {read_linear_layers, write_layer_types}}},
      {.name = "OlmoForCausalLM",
       .base = "OlmoModel",
       .model_type = "olmo",
       .rope_type_key = "type",
       .always = {{"norm", "layernorm_without_parameters"}, {"norm_eps", kEpsOfOlmo}},
       .groups = {kAttentionBias, {nullptr, write_olmo}}},
      {.name = "Olmo2ForCausalLM",
       .base = "Olmo2Model",
       .model_type = "olmo2",
       .norm_eps = 1e-5,
       .rope_type_key = "type",
       .always = {{"norm_placement", "after"}, {"qk_norm", "whole"}},
       .groups = {kAttentionBias}},
      {.name = "Olmo3ForCausalLM",
       .base = "Olmo3Model",
       .model_type = "olmo3",
       .norm_eps = 1e-5,
       .rotary_by_layer = true,
       .always = {{"norm_placement", "after"}, {"qk_norm", "whole"}},
       .groups = {kAttentionBias, {read_olmo3, write_layer_types}}},
      {.name = "SmolLM3ForCausalLM",
       .base = "SmolLM3Model",
       .model_type = "smollm3",
       .max_positions = 32768,
       .rope_theta = 2000000,
       .tied = true,
       .kv_heads = 4,
       .groups = {kAttentionBias, kNoMlpBias, {read_smollm3, write_smollm3}}},
      {.name = "GemmaForCausalLM",
       .base = "GemmaModel",
       .model_type = "gemma",
       .max_positions = 8192,
       .tied = true,
       .kv_heads = 16,
       .head_dim = 256,
       .storage = {.norm_offset = 1},
       .default_activation = "gelu_pytorch_tanh",
       .groups = {kAttentionBias, {read_gemma1, nullptr}}},
      {.name = "Gemma2ForCausalLM",
       .base = "Gemma2Model",
       .model_type = "gemma2",
       .max_positions = 8192,
       .tied = true,
       .kv_heads = 4,
       .head_dim = 256,
       .storage = {.norm_offset = 1},
       .activation = "hidden_activation",
       .default_activation = "gelu_pytorch_tanh",
       .always = {{"norm_placement", "both"}},
       .groups = {kAttentionBias, {read_gemma2, write_gemma2}}},
      {.name = "Gemma3ForCausalLM",
       .base = "Gemma3TextModel",
       .model_type = "gemma3_text",
       .max_positions = 131072,
       .rope_theta = 1e6,
       .tied = true,
       .kv_heads = 4,
       .head_dim = 256,
       .storage = {.norm_offset = 1},
       .window_rope_theta = "rope_local_base_freq",
       .rotary_by_layer = true,
       .activation = "hidden_activation",
       .default_activation = "gelu_pytorch_tanh",
       .always = {{"norm_placement", "both"}, {"qk_norm", "per_head"}},
       .groups = {kAttentionBias, {read_gemma3, write_gemma3}}},
      {.name = "Gemma4ForCausalLM",
       .base = "Gemma4TextModel",
       .model_type = "gemma4_text",
       .max_positions = 131072,
       .rope_theta = 1e6,
       .tied = true,
       .kv_heads = 4,
       .head_dim = 256,
       .rotary = {.proportional = 0.25},
       .storage = {.names = ParameterNames::gpt_oss,
                   .joined = {{"experts.gate_up_proj",
                               {"experts.*.gate_proj.weight", "experts.*.up_proj.weight"}},
                              {"experts.down_proj", {"experts.*.down_proj.weight"}}}},
       .rotary_by_layer = true,
       .activation = "hidden_activation",
       .default_activation = "gelu_pytorch_tanh",
       .always = {{"norm_placement", "both"},
                  {"qk_norm", "per_head"},
                  {"value_norm", true},
                  {"layer_scale", true},
                  {"attention_scale", 1.0}},
       .groups = {kAttentionBias, {read_gemma4, write_gemma4}}},
      {.name = "GraniteForCausalLM",
       .base = "GraniteModel",
       .model_type = "granite",
       .same = with_granite_scales(),
       .groups = {kAttentionBias, kNoMlpBias, {read_attention_multiplier, write_attention_multiplier}}},
  };
}
}  // namespace

std::vector<SameField> with_delta_net(std::vector<SameField> fields) {
  fields.insert(fields.end(), {{"linear_num_key_heads", "/delta_net/key_heads", "integer", 16},
                               {"linear_num_value_heads", "/delta_net/value_heads", "integer", 32},
                               {"linear_key_head_dim", "/delta_net/key_dim", "integer", 128},
                               {"linear_value_head_dim", "/delta_net/value_dim", "integer", 128},
                               {"linear_conv_kernel_dim", "/delta_net/kernel", "integer", 4}});
  return fields;
}

std::vector<SameField> with_granite_scales(std::vector<SameField> fields) {
  fields.insert(fields.end(), {{"embedding_multiplier", "/embedding_scale", "number", 1.0},
                               {"residual_multiplier", "/residual_scale", "number", 1.0},
                               {"logits_scaling", "/logits_divisor", "number", 1.0}});
  return fields;
}

const std::vector<Architecture>& architectures() {
  static const std::vector<Architecture> all = [] {
    std::vector<Architecture> classes = dense_classes();
    std::ranges::move(mixture_classes(), std::back_inserter(classes));
    return classes;
  }();
  return all;
}
}  // namespace optrush
