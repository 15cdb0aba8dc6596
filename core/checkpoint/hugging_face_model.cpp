#include "checkpoint/hugging_face_model.h"

#include <algorithm>
#include <cctype>

#include "base/suggest.h"
#include "base/text.h"
#include "checkpoint/architectures.h"
#include "optrush/error.h"
#include "spec/spec_json.h"
#include "spec/value.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
constexpr const char* kTied = "tie_word_embeddings";
/// Text models that equal another class, except for the places of images.
constexpr std::pair<const char*, const char*> kEqualTextModels[] = {
    {"qwen2_5_vl", "qwen2"}, {"qwen2_5_vl_text", "qwen2"}, {"qwen3_vl_text", "qwen3"}};

constexpr const char* kText = "text_config";
/// Some models with encoders have the fields of the text model beside "vision_config".
bool has_encoders(const ConfigFields& config) {
  return config[kText].is_object() || config["vision_config"].is_object();
}

/// The fields of the text model of a folder, from its config.json, which has encoders.
ConfigFields text_part(const ConfigFields& whole, const fs::path& folder) {
  const bool apart = whole[kText].is_object();
  const Json& of_text = apart ? whole[kText] : whole.json();
  Json text = of_text;
  text.erase("architectures");  // of the whole model; "model_type" is of the text model
  for (const char* key : {"quantization_config", "bos_token_id", "eos_token_id"})
    if (!whole[key].is_null()) text[key] = whole[key];
  // transformers 4 reads the inner field, 5 the outer one, unless the files have another head.
  if (whole[kTied].is_null() || whole[kTied] != of_text.value(kTied, Json()))
    text[kTied] = CheckpointFiles(folder).find("lm_head.weight") == nullptr;
  return {std::move(text), whole.where() + (apart ? std::string(": ") + kText : "")};
}

/// Why common classes can't be loaded as another class.
constexpr std::pair<const char*, const char*> kDifferences[] = {
    {"DeepseekV2ForCausalLM", "its router has softmax scores in groups"},
    {"PhimoeForCausalLM", "its router and its norms differ"},
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
  const std::string near = nearest(name, names);
  std::string cure = "models that load are " + join(names) + "; this model differs from all of them" +
                     (near.empty() ? "" : ", the nearest name is " + near);
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
    const auto* other =
        std::ranges::find(kEqualTextModels, type, &std::pair<const char*, const char*>::first);
    const std::string same = other == std::end(kEqualTextModels) ? type : other->second;
    for (const auto& known : architectures())
      if (same == known.model_type) return known;
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
void check_unsupported(const ConfigFields& config, const Storage& storage) {
  check_constant(config, "attention_dropout", 0);
  check_constant(config, "clip_qkv", nullptr);
  const Json& quantization = config["quantization_config"];
  const bool in_mxfp4 =
      storage.mxfp4 && quantization.is_object() && quantization.value("quant_method", Json()) == "mxfp4";
  if (!in_mxfp4) check_constant(config, "quantization_config", nullptr);
}

const char* read_activation(const ConfigFields& config, const Architecture& architecture) {
  const Json name = config.value(architecture.activation, "string", architecture.default_activation);
  constexpr std::string_view kUngated = "relu2";
  std::vector<std::string> known;
  for (const auto& [theirs, ours] : kActivationNames) {
    if ((theirs == kUngated) != (architecture.default_activation == kUngated)) continue;
    if (name == theirs) return ours;
    known.push_back("\"" + std::string(theirs) + "\"");
  }
  config.refuse(
      "'" + std::string(architecture.activation) + "' is " + shown(name) + ", which is not supported",
      "supported values: " + join(known));
}

/// `otherwise`: the class's value of a missing key; `of_null`: the value of null, or of a class without the
/// field.
Json size_or(const ConfigFields& config, const char* key, int64_t otherwise, const Json& of_null) {
  const bool class_decides = !config.contains(key) && otherwise != 0;
  return class_decides ? Json(otherwise) : config.value(key, "integer", of_null);
}
}  // namespace

IgnoredTensors HuggingFaceModel::ignored_tensors() const {
  const auto layer = [](int64_t number) { return "model.layers." + std::to_string(number) + "."; };
  IgnoredTensors ignored{.beside_language_model = !whole.empty()};
  if (storage.prediction_layer) ignored.beginnings.push_back(layer(llama.n_layers));
  if (*storage.ignored != '\0') ignored.beginnings.emplace_back(storage.ignored);
  // Files of Gemma 4 have matrices and norms that layers with shared keys and values do not use.
  for (int64_t shared = llama.n_layers - llama.kv_shared_layers; shared < llama.n_layers; ++shared)
    for (const char* unused : {"k_proj.", "v_proj.", "k_norm.", "v_norm."})
      ignored.beginnings.push_back(layer(shared) + "self_attn." + unused);
  return ignored;
}

ConfigFields text_fields(const fs::path& folder) {
  ConfigFields whole(folder / "config.json");
  return has_encoders(whole) ? text_part(whole, folder) : whole;
}

HuggingFaceModel read_hugging_face_config(const ConfigFields& config, const std::string& whole) {
  Architecture architecture = architecture_of(config);
  architecture.rotary.images |= !whole.empty();
  check_unsupported(config, architecture.storage);
  HuggingFaceModel model{.architecture = architecture.name,
                         .model_type = architecture.model_type,
                         .storage = architecture.storage,
                         .whole = whole};
  model.max_positions =
      config.value("max_position_embeddings", "integer", architecture.max_positions).get<int64_t>();
  model.rotary = read_rotary(config, model.max_positions, architecture);
  const Json heads = config.value("num_attention_heads", "integer");
  Json fields = {{"vocab_size", config.value("vocab_size", "integer")},
                 {"dim", config.value("hidden_size", "integer")},
                 {"n_layers", architecture.counts_layers ? layers_of(config) : 1},
                 {"n_heads", heads},
                 {"n_kv_heads", size_or(config, "num_key_value_heads", architecture.kv_heads, heads)},
                 {"head_dim", size_or(config, "head_dim", architecture.head_dim, 0)},
                 {"ffn_dim", config.value(architecture.ffn_dim, "integer")},
                 {"activation", read_activation(config, architecture)},
                 {"norm_eps", config.value("rms_norm_eps", "number", architecture.norm_eps)},
                 {"rope_theta", model.rotary.theta},
                 {"rotary_fraction", model.rotary.fraction},
                 {"tie_embeddings", config.value("tie_word_embeddings", "boolean", architecture.tied)},
                 {"init_std", config.value("initializer_range", "number", 0.02)}};
  if (model.rotary.scaling.rescales()) fields["rope_scaling"] = record::written(model.rotary.scaling);
  architecture.read(config, fields);
  const bool one_table = model.rotary.window_theta == model.rotary.theta &&
                         !model.rotary.scaling.rescales() && !fields.contains("full_attention");
  if (model.rotary.window_theta != 0 && fields.contains("window") && !one_table)
    fields["window_rope_theta"] = model.rotary.window_theta;
  model.llama = llama_from_json(fields, config.where());
  model.storage.layers_without_mlp = model.llama.layers_without_mlp;
  return model;
}

JoinedTensors joined_tensors(const HuggingFaceModel& model, const CheckpointFiles& files) {
  const auto parameters = llama_parameters(model.llama);
  Storage joined = model.storage;
  if (joined.joined.empty()) joined.joined = joined.joined_or_apart;
  JoinedTensors found(parameters, joined);
  // Without joined tensors in the files, the parameters are stored apart.
  const bool apart = std::ranges::none_of(parameters, [&](const NamedShape& parameter) {
    const PlaceInFile* place = found.find(parameter.name);
    return place != nullptr &&
           (files.find(place->tensor.name) != nullptr || model.storage.joined_or_apart.empty());
  });
  return apart ? JoinedTensors() : std::move(found);
}

HuggingFaceModel read_hugging_face_model(const fs::path& folder) {
  const ConfigFields whole(folder / "config.json");
  if (!has_encoders(whole)) return read_hugging_face_config(whole);
  const Json& names = whole["architectures"];
  const bool named = names.is_array() && names.size() == 1 && names[0].is_string();
  return read_hugging_face_config(text_part(whole, folder), named ? names[0] : "model with encoders");
}
}  // namespace optrush
