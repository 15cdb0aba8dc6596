#include "checkpoint/nemotron_h.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "spec/value.h"

namespace optrush {
namespace {
constexpr const char* kPatternField = "hybrid_override_pattern";
constexpr char kMambaLetter = 'M', kAttentionLetter = '*', kMlpLetter = '-', kExpertsLetter = 'E';

struct LayerType {
  const char* name;
  char letter;
};
constexpr LayerType kLayerTypes[] = {
    {"linear_attention", kMambaLetter}, {"mamba", kMambaLetter}, {"full_attention", kAttentionLetter},
    {"attention", kAttentionLetter},    {"mlp", kMlpLetter},     {"moe", kExpertsLetter}};

/// The types of all layers, a letter each, and the field that has them.
struct LayerPattern {
  const char* field;
  std::string letters;
};

LayerPattern pattern_of(const ConfigFields& config) {
  for (const char* field : {"layers_block_type", "layer_types"}) {
    const Json& types = config[field];
    if (types.is_null()) continue;
    if (!types.is_array()) config.refuse("'" + std::string(field) + "' is " + shown(types), "give a list");
    LayerPattern pattern{field, {}};
    for (const Json& type : types) {
      const auto* known =
          std::ranges::find_if(kLayerTypes, [&](const auto& each) { return type == each.name; });
      if (known == std::end(kLayerTypes))
        config.refuse("'" + std::string(field) + "' names " + shown(type) + ", which is not supported",
                      R"(supported values: "linear_attention", "full_attention", "mlp" and "moe")");
      pattern.letters += known->letter;
    }
    return pattern;
  }
  LayerPattern pattern{kPatternField, config.value(kPatternField, "string", "ME*-").get<std::string>()};
  if (const size_t other = pattern.letters.find_first_not_of("M*-E"); other != std::string::npos)
    config.refuse("'" + std::string(kPatternField) + "' has '" + pattern.letters[other] + "' at layer " +
                      std::to_string(other),
                  "supported are M (Mamba 2), * (attention), - (an MLP) and E (experts)");
  return pattern;
}

void read_layers(const ConfigFields& config, Json& fields) {
  const auto [field, letters] = pattern_of(config);
  Json full = Json::array(), dense = Json::array(), without = Json::array();
  int64_t blocks = 0;
  for (size_t i = 0; i < letters.size(); ++i, ++blocks) {
    if (letters[i] == kMlpLetter || letters[i] == kExpertsLetter)
      config.refuse("'" + std::string(field) + "' has " + (letters[i] == kMlpLetter ? "an MLP" : "experts") +
                        " at layer " + std::to_string(i) +
                        ", which does not follow Mamba or attention: " + letters,
                    "supported are patterns in which each MLP and each layer of experts follows one of them");
    if (letters[i] == kAttentionLetter) full.push_back(blocks);
    const char next = i + 1 < letters.size() ? letters[i + 1] : kMambaLetter;
    if (next == kMlpLetter) dense.push_back(blocks);
    if (next == kMlpLetter || next == kExpertsLetter)
      ++i;
    else
      without.push_back(blocks);
  }
  if (blocks == 0) config.refuse("'" + std::string(field) + "' is empty", "the model must have layers");
  check_constant(config, "num_hidden_layers", letters.size(),
                 "but the list of layer types has another length");
  fields["n_layers"] = blocks;
  fields["layers_without_mlp"] = without;
  if (std::ssize(full) == blocks) {
    fields.erase("mamba");
  } else {
    if (fields["mamba"]["heads"] == 0) config.refuse("'mamba_num_heads' is 0", "it must be positive");
    fields["full_attention_layers"] = full;
    fields["mamba"]["norm_by_group"] = fields["mamba"]["groups"] != 1;
  }
  if (letters.find(kExpertsLetter) == std::string::npos) {
    for (const char* of_experts :
         {"n_experts", "router", "expert_ffn_dim", "shared_expert_ffn_dim", "shared_expert_gate"})
      fields.erase(of_experts);
    return;
  }
  fields["dense_layers"] = dense;
  check_constant(config, "n_shared_experts", 1, "which transformers ignores");
  for (const auto& [key, ours] : {std::pair("n_routed_experts", "n_experts"),
                                  std::pair("moe_shared_expert_intermediate_size", "shared_expert_ffn_dim")})
    if (fields[ours] == 0) config.refuse("'" + std::string(key) + "' is 0", "it must be positive");
}
void write_layers(const LlamaSpec& spec, Json& config) {
  std::string letters;
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    letters += spec.has_linear_attention(layer) ? kMambaLetter : kAttentionLetter;
    if (spec.has_mlp(layer)) letters += spec.has_experts(layer) ? kExpertsLetter : kMlpLetter;
  }
  config[kPatternField] = letters;
  config["num_hidden_layers"] = letters.size();
}

void check_constants(const ConfigFields& config, Json&) {
  for (const char* biases : {"attention_bias", "mlp_bias"}) check_constant(config, biases, false);
  check_constant(config, "tie_word_embeddings", false, "which transformers ignores in this class");
  check_constant(config, "hidden_dropout", 0.0);
  for (const char* absent : {"sliding_window", "moe_latent_size"}) check_constant(config, absent, nullptr);
  check_constant(config, "mamba_hidden_act", "silu");
  check_step_limit(config);
}
void write_constants(const LlamaSpec&, Json& config) {
  for (const char* absent : {"attention_bias", "mlp_bias", "tie_word_embeddings"}) config[absent] = false;
  config["n_shared_experts"] = 1;
}
}  // namespace

Architecture nemotron_h() {
  return {.name = "NemotronHForCausalLM",
          .base = "NemotronHModel",
          .model_type = "nemotron_h",
          .max_positions = 4096,
          .counts_layers = false,
          .kv_heads = 8,
          .head_dim = 128,
          .storage = {.names = ParameterNames::nemotron_h, .ignored = "mtp."},
          .activation = "mlp_hidden_act",
          .default_activation = "relu2",
          .always = {{"position", "none"},
                     {"shared_expert_gate", false},
                     {"router", {{"scores", "sigmoid"}, {"bias", "choice"}}}},
          .same = {{"layer_norm_epsilon", "/norm_eps", "number", 1e-5},
                   {"mamba_num_heads", "/mamba/heads", "integer", 128},
                   {"mamba_head_dim", "/mamba/head_dim", "integer", 64},
                   {"n_groups", "/mamba/groups", "integer", 8},
                   {"ssm_state_size", "/mamba/state", "integer", 128},
                   {"conv_kernel", "/mamba/kernel", "integer", 4},
                   {"use_conv_bias", "/mamba/convolution_bias", "boolean", true},
                   {"use_bias", "/mamba/projection_bias", "boolean", false},
                   {"time_step_min", "/mamba/min_step", "number", 0.001},
                   {"n_routed_experts", "/n_experts", "integer", 8},
                   {"num_experts_per_tok", "/experts_per_token", "integer", 2},
                   {"moe_intermediate_size", "/expert_ffn_dim", "integer", 7688},
                   {"moe_shared_expert_intermediate_size", "/shared_expert_ffn_dim", "integer", 7688},
                   {"norm_topk_prob", "/normalize_router", "boolean", true},
                   {"routed_scaling_factor", "/router/scale", "number", 1.0},
                   {"n_group", "/router/groups", "integer", 1},
                   {"topk_group", "/router/kept_groups", "integer", 1}},
          .groups = {{check_constants, write_constants}, {read_layers, write_layers}}};
}

std::string name_by_layer(const std::string& parameter, const std::vector<int64_t>& layers_without_mlp) {
  constexpr std::string_view kLayers = "model.layers.";
  const size_t end = parameter.find('.', kLayers.size());
  if (!parameter.starts_with(kLayers) || end == std::string::npos) return parameter;
  const int64_t block = std::stoll(parameter.substr(kLayers.size(), end - kLayers.size()));
  const int64_t before =  // blocks of one layer before this block
      std::ranges::lower_bound(layers_without_mlp, block) - layers_without_mlp.begin();
  struct Part {
    std::string_view ours, theirs;
    bool second;  ///< in the second layer of the block
  };
  constexpr Part kParts[] = {{"input_layernorm", "norm", false},
                             {"self_attn", "mixer", false},
                             {"mamba", "mixer", false},
                             {"post_attention_layernorm", "norm", true},
                             {"mlp", "mixer", true}};
  const size_t after = parameter.find('.', end + 1);
  for (const auto& [ours, theirs, second] : kParts)
    if (parameter.substr(end + 1, after - end - 1) == ours)
      return std::string(kLayers) + std::to_string(2 * block - before + (second ? 1 : 0)) + "." +
             std::string(theirs) + parameter.substr(after);
  return parameter;
}
}  // namespace optrush
