#include "checkpoint/hugging_face_model.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include "base/suggest.h"
#include "optrush/error.h"
#include "spec/spec_json.h"
#include "spec/value.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
struct Architecture {
  const char* name;        ///< of the class
  const char* base;        ///< of the class without a head, which stores the same weights
  const char* model_type;  ///< by which AutoModelForCausalLM chooses the class
  int64_t max_positions;   ///< where config.json does not say
};
constexpr Architecture kArchitectures[] = {
    {"LlamaForCausalLM", "LlamaModel", "llama", 2048},
    {"MistralForCausalLM", "MistralModel", "mistral", 131072},
    {"OlmoForCausalLM", "OlmoModel", "olmo", 2048},
};

/// Why frequent models do not load under another name.
constexpr std::pair<const char*, const char*> kDifferences[] = {
    {"Qwen2", "its projections of queries, keys and values have biases"},
    {"Qwen3", "it normalizes queries and keys"},
    {"Gemma", "it scales its embeddings, and its norms and activation differ"},
    {"Gemma2", "it scales its embeddings, and its norms and activation differ"},
    {"Mixtral", "its MLPs are mixtures of experts"},
    {"Olmo2", "it normalizes queries and keys, and the outputs of attention and MLP"},
    {"Phi3", "it stores its projections in fused matrices"},
    {"Granite", "it scales embeddings, residuals, attention and logits"},
};

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// A Llama of the sizes in `config` as a script writes it; "" where they make none.
std::string llama_of_sizes(const ConfigFields& config) {
  const std::pair<const char*, const char*> sizes[] = {
      {"vocab_size", "vocab_size"},          {"dim", "hidden_size"},
      {"n_layers", "num_hidden_layers"},     {"n_heads", "num_attention_heads"},
      {"n_kv_heads", "num_key_value_heads"}, {"head_dim", "head_dim"},
      {"ffn_dim", "intermediate_size"}};
  Json fields = Json::object();
  std::string text;
  for (const auto& [ours, theirs] : sizes) {
    if (config[theirs].is_null()) continue;
    fields[ours] = config[theirs];
    text += (text.empty() ? "" : ", ") + std::string(ours) + " = " + shown(config[theirs]);
  }
  try {
    llama_from_json(fields, "");
  } catch (const Error&) {
    return {};
  }
  return fields.size() < 5 ? "" : "rush.llama { " + text + " }";
}

[[noreturn]] void refuse_architecture(const ConfigFields& config, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& known : kArchitectures) {
    names.emplace_back(known.name);
    if (lower(name) == lower(known.name))
      config.refuse("'architectures' names '" + name + "', which is not a class of transformers",
                    "did you mean '" + names.back() + "'?");
  }
  std::string what = "'architectures' names '" + name + "', a model that is not supported";
  for (const auto& [stem, difference] : kDifferences)
    if (name == std::string(stem) + "ForCausalLM") what += ": " + std::string(difference);
  std::string cure = "models that load are " + join(names) + "; this model differs from all of them";
  if (const std::string llama = llama_of_sizes(config); !llama.empty())
    cure += ". To train a Llama of the same sizes from initial weights: " + llama;
  config.refuse(what, cure);
}

/// By "architectures", or where there is none by "model_type", as AutoModelForCausalLM does.
const Architecture& architecture_of(const ConfigFields& config) {
  const Json& list = config["architectures"];
  const bool none = list.is_null() || (list.is_array() && list.empty());
  const std::string type = config.value("model_type", "string", "");
  const auto by_type = std::ranges::find(kArchitectures, type, &Architecture::model_type);
  if (none) {
    if (by_type != std::end(kArchitectures)) return *by_type;
    std::vector<std::string> types;
    for (const auto& known : kArchitectures) types.emplace_back(known.model_type);
    if (type.empty())
      config.refuse("neither 'architectures' nor 'model_type' says which model this is",
                    R"(for a Llama: "architectures": ["LlamaForCausalLM"])");
    config.refuse("'model_type' is '" + type + "', a model that is not supported",
                  "models that load are " + join(types));
  }
  const Json name =
      config.field(list.is_array() && list.size() == 1 ? list[0] : list, "architectures", "string");
  for (const auto& known : kArchitectures) {
    if (name != known.name && name != known.base) continue;
    if (!type.empty() && type != known.model_type)
      config.refuse(
          "'architectures' names '" + name.get<std::string>() + "', but 'model_type' is '" + type + "'",
          "transformers uses model_type; correct the wrong field");
    return known;
  }
  refuse_architecture(config, name);
}

/// Fields that change the function when they have another value than these.
void check_unsupported(const ConfigFields& config) {
  const std::pair<const char*, std::vector<Json>> only[] = {
      {"attention_bias", {false}}, {"mlp_bias", {false}}, {"hidden_act", {"silu", "swish"}},
      {"attention_dropout", {0}},  {"clip_qkv", {}},      {"quantization_config", {}},
  };
  for (const auto& [key, values] : only)
    if (const Json& given = config[key]; !given.is_null() && std::ranges::find(values, given) == values.end())
      config.refuse("'" + std::string(key) + "' is " + shown(given) + ", which is not supported",
                    "supported value: " + (values.empty() ? "null" : values.front().dump()));
}

/// Attention of MistralForCausalLM sees so many positions; 0: all. Its class has 4096 where the key is
/// missing.
int64_t window_of(const ConfigFields& config) {
  if (!config.contains("sliding_window")) return 4096;
  const int64_t window = config.value("sliding_window", "integer", 0).get<int64_t>();
  if (window < 0 || (window == 0 && !config["sliding_window"].is_null()))
    config.refuse("'sliding_window' is " + config["sliding_window"].dump(),
                  "it must be null or a number of positions");
  return window;
}
}  // namespace

HuggingFaceModel read_hugging_face_model(const fs::path& folder) {
  const ConfigFields config(folder / "config.json");
  const Architecture& architecture = architecture_of(config);
  check_unsupported(config);
  HuggingFaceModel model{.architecture = architecture.name, .model_type = architecture.model_type};
  const bool olmo = model.model_type == "olmo", mistral = model.model_type == "mistral";
  model.max_positions =
      config.value("max_position_embeddings", "integer", architecture.max_positions).get<int64_t>();
  model.rotary = read_rotary(config, model.max_positions);
  const Json heads = config.value("num_attention_heads", "integer");
  // Null is as many as heads; Mistral's class has 8 where the key is missing.
  const Json kv_heads = mistral && !config.contains("num_key_value_heads") ? Json(8) : heads;
  Json fields = {{"vocab_size", config.value("vocab_size", "integer")},
                 {"dim", config.value("hidden_size", "integer")},
                 {"n_layers", config.value("num_hidden_layers", "integer")},
                 {"n_heads", heads},
                 {"n_kv_heads", config.value("num_key_value_heads", "integer", kv_heads)},
                 {"head_dim", config.value("head_dim", "integer", 0)},
                 {"ffn_dim", config.value("intermediate_size", "integer")},
                 {"norm", olmo ? "layernorm_without_parameters" : "rmsnorm"},
                 {"norm_eps", olmo ? Json(1e-5) : config.value("rms_norm_eps", "number", 1e-6)},
                 {"rope_theta", model.rotary.theta},
                 {"tie_embeddings", config.value("tie_word_embeddings", "boolean", false)},
                 {"init_std", config.value("initializer_range", "number", 0.02)}};
  if (const RopeScaling& scaling = model.rotary.scaling; scaling.factor != 1)
    fields["rope_scaling"] = {{"factor", scaling.factor},
                              {"low_freq_factor", scaling.low_freq_factor},
                              {"high_freq_factor", scaling.high_freq_factor},
                              {"original_max_position", scaling.original_max_position}};
  model.llama = llama_from_json(fields, config.where());
  const auto limit = [&](int64_t length, const char* field) {
    if (length == 0 || (model.longest != 0 && model.longest <= length)) return;
    model.longest = length;
    model.longest_by = field;
  };
  if (mistral) limit(window_of(config), "sliding_window");
  limit(model.rotary.longest, "max_position_embeddings");
  return model;
}
}  // namespace optrush
