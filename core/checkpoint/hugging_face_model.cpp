#include "checkpoint/hugging_face_model.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include "base/suggest.h"
#include "checkpoint/architectures.h"
#include "optrush/error.h"
#include "spec/spec_fields.h"
#include "spec/spec_json.h"
#include "spec/value.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
/// Why common classes can't be loaded as another class.
constexpr std::pair<const char*, const char*> kDifferences[] = {
    {"Gemma3ForConditionalGeneration", "it has an image encoder; Gemma3ForCausalLM is its text model"},
    {"DeepseekV3ForCausalLM", "its attention, router and shared experts differ"},
    {"GptOssForCausalLM", "its attention has sinks, and its experts biases and another activation"},
    {"Phi3ForCausalLM", "it stores its projections in fused matrices"},
};

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// A suggestion for a script: a Llama with the sizes in `config`; "" if they are invalid.
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
  for (const auto& known : architectures()) {
    names.emplace_back(known.name);
    if (lower(name) == lower(known.name))
      config.refuse("'architectures' names '" + name + "', which is not a class of transformers",
                    "did you mean '" + names.back() + "'?");
  }
  std::string what = "'architectures' names '" + name + "', a model that is not supported";
  for (const auto& [known, difference] : kDifferences)
    if (name == known) what += ": " + std::string(difference);
  std::string cure = "models that load are " + join(names) + "; this model differs from all of them";
  if (const std::string llama = llama_of_sizes(config); !llama.empty())
    cure += ". To train a Llama of the same sizes from initial weights: " + llama;
  config.refuse(what, cure);
}

/// Selects the class by "architectures", or by "model_type" if that is missing, like AutoModelForCausalLM.
const Architecture& architecture_of(const ConfigFields& config) {
  const Json& list = config["architectures"];
  const bool none = list.is_null() || (list.is_array() && list.empty());
  const std::string type = config.value("model_type", "string", "");
  if (none) {
    for (const auto& known : architectures())
      if (type == known.model_type) return known;
    std::vector<std::string> types;
    for (const auto& known : architectures()) types.emplace_back(known.model_type);
    if (type.empty())
      config.refuse("'architectures' and 'model_type' are missing, so the class of the model is unknown",
                    R"(for a Llama: "architectures": ["LlamaForCausalLM"])");
    config.refuse("'model_type' is '" + type + "', a model that is not supported",
                  "models that load are " + join(types));
  }
  const Json name =
      config.field(list.is_array() && list.size() == 1 ? list[0] : list, "architectures", "string");
  for (const auto& known : architectures()) {
    if (name != known.name && name != known.base) continue;
    if (!type.empty() && type != known.model_type)
      config.refuse(
          "'architectures' names '" + name.get<std::string>() + "', but 'model_type' is '" + type + "'",
          "transformers uses model_type; correct the wrong field");
    return known;
  }
  refuse_architecture(config, name);
}

/// Refuses fields whose other values change the computed function.
void check_unsupported(const ConfigFields& config) {
  const std::pair<const char*, std::vector<Json>> only[] = {
      {"attention_dropout", {0}},
      {"clip_qkv", {}},
      {"quantization_config", {}},
  };
  for (const auto& [key, values] : only)
    if (const Json& given = config[key]; !given.is_null() && std::ranges::find(values, given) == values.end())
      config.refuse("'" + std::string(key) + "' is " + shown(given) + ", which is not supported",
                    "supported value: " + (values.empty() ? "null" : values.front().dump()));
}

const char* read_activation(const ConfigFields& config, const Architecture& architecture) {
  const Json name = config.value(architecture.activation, "string", architecture.default_activation);
  std::vector<std::string> known;
  for (const auto& [theirs, ours] : kActivationNames) {
    if (name == theirs) return ours;
    known.push_back("\"" + std::string(theirs) + "\"");
  }
  config.refuse(
      "'" + std::string(architecture.activation) + "' is " + shown(name) + ", which is not supported",
      "supported values: " + join(known));
}

/// Without such tables for a class, transformers 5 ignores their settings.
void check_rotary_tables(const ConfigFields& config, const Architecture& architecture) {
  const Json& parameters = config["rope_parameters"];
  if (architecture.rotary_by_layer || !parameters.is_object()) return;
  for (const auto& [key, value] : parameters.items())
    if (value.is_object())
      config.refuse("'rope_parameters." + key + "' is a table for one type of layer, which " +
                        architecture.name + " does not have",
                    "put its settings into 'rope_parameters' itself");
}

/// `otherwise`: the class's value of a missing key; `of_null`: the value of null, or of a class without the
/// field.
Json size_or(const ConfigFields& config, const char* key, int64_t otherwise, const Json& of_null) {
  const bool class_decides = !config.contains(key) && otherwise != 0;
  return class_decides ? Json(otherwise) : config.value(key, "integer", of_null);
}
}  // namespace

HuggingFaceModel read_hugging_face_config(const ConfigFields& config) {
  const Architecture& architecture = architecture_of(config);
  check_unsupported(config);
  HuggingFaceModel model{.architecture = architecture.name,
                         .model_type = architecture.model_type,
                         .storage = architecture.storage};
  model.max_positions =
      config.value("max_position_embeddings", "integer", architecture.max_positions).get<int64_t>();
  check_rotary_tables(config, architecture);
  model.rotary =
      read_rotary(config, model.max_positions, architecture.rope_theta, architecture.window_rope_theta);
  const Json heads = config.value("num_attention_heads", "integer");
  Json fields = {{"vocab_size", config.value("vocab_size", "integer")},
                 {"dim", config.value("hidden_size", "integer")},
                 {"n_layers", config.value("num_hidden_layers", "integer")},
                 {"n_heads", heads},
                 {"n_kv_heads", size_or(config, "num_key_value_heads", architecture.kv_heads, heads)},
                 {"head_dim", size_or(config, "head_dim", architecture.head_dim, 0)},
                 {"ffn_dim", config.value("intermediate_size", "integer")},
                 {"activation", read_activation(config, architecture)},
                 {"norm_eps", config.value("rms_norm_eps", "number", architecture.norm_eps)},
                 {"rope_theta", model.rotary.theta},
                 {"tie_embeddings", config.value("tie_word_embeddings", "boolean", architecture.tied)},
                 {"init_std", config.value("initializer_range", "number", 0.02)}};
  if (model.rotary.scaling.factor != 1)
    fields["rope_scaling"] = rope_scaling_fields().write(model.rotary.scaling);
  architecture.read(config, fields);
  const bool one_table = model.rotary.window_theta == model.rotary.theta && model.rotary.scaling.factor == 1;
  if (model.rotary.window_theta != 0 && fields.contains("window") && !one_table)
    fields["window_rope_theta"] = model.rotary.window_theta;
  model.llama = llama_from_json(fields, config.where());
  return model;
}

HuggingFaceModel read_hugging_face_model(const fs::path& folder) {
  return read_hugging_face_config(ConfigFields(folder / "config.json"));
}
}  // namespace optrush
