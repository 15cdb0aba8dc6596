#include "model/hugging_face.h"

#include "base/files.h"
#include "base/spec_json.h"
#include "base/suggest.h"
#include "base/value.h"
#include "optrush/error.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
/// The fields of config.json, by name; null counts as absent, as it does in Hugging Face's classes.
class Config {
 public:
  explicit Config(const fs::path& path) : where_(path.string()), json_(read_json(path)) {
    if (!json_.is_object())
      throw Error("must be a table of named fields, but is " + shown(json_), {}, where_);
  }

  const Json& operator[](const std::string& key) const {
    static const Json absent;
    const auto it = json_.find(key);
    return it == json_.end() ? absent : *it;
  }
  bool contains(const std::string& key) const { return json_.contains(key); }
  Json value(const std::string& key, const std::string& type, const Json& otherwise = {}) const {
    return field((*this)[key], key, type, otherwise);
  }
  Json field(const Json& value, const std::string& name, const std::string& type,
             const Json& otherwise = {}) const {
    if (value.is_null() && otherwise.is_null()) throw Error("'" + name + "' is missing", {}, where_);
    return value.is_null() ? otherwise : checked({.type = type}, value, "'" + name + "'", where_);
  }
  [[noreturn]] void refuse(const std::string& what, const std::string& cure) const {
    throw Error(what, cure, where_);
  }
  const std::string& where() const { return where_; }

 private:
  std::string where_;
  Json json_;
};

/// Fields that change the function when they have another value than this one.
void check_unsupported(const Config& config) {
  const std::pair<const char*, Json> only[] = {
      {"attention_bias", false},   {"mlp_bias", false}, {"hidden_act", "silu"},
      {"attention_dropout", 0},    {"clip_qkv", {}},    {"partial_rotary_factor", 1},
      {"quantization_config", {}},
  };
  for (const auto& [key, value] : only)
    if (const Json& given = config[key]; !given.is_null() && given != value)
      config.refuse("'" + std::string(key) + "' is " + shown(given) + ", which this model does not have",
                    "supported is " + value.dump());
}

/// Mistral without a window is Llama. Where its class finds no "sliding_window", it takes one of 4096.
void check_no_window(const Config& config) {
  if (!config.contains("sliding_window") || !config["sliding_window"].is_null())
    config.refuse("the attention of this Mistral has a sliding window, which this model does not have",
                  "a window that is not shorter than your sequences changes nothing: set \"sliding_window\" "
                  "to null in a copy of config.json then");
}

/// "rope_theta" and "rope_scaling", or "rope_parameters" that holds both.
void read_rope(const Config& config, Json& model) {
  const bool merged = !config["rope_parameters"].is_null();
  const std::string name = merged ? "rope_parameters" : "rope_scaling";
  const Json rope = config[name].is_null() ? Json::object() : config[name];
  if (!rope.is_object()) config.refuse("'" + name + "' must be a table, but is " + shown(rope), {});
  const auto number = [&](const char* key) {
    return config.field(rope.value(key, Json()), name + "." + key, "number");
  };
  model["rope_theta"] = merged && rope.contains("rope_theta") ? number("rope_theta")
                                                              : config.value("rope_theta", "number", 10000.0);
  const Json type = rope.value("rope_type", rope.value("type", Json("default")));
  if (type == "llama3")
    model["rope_scaling"] = {{"factor", number("factor")},
                             {"low_freq_factor", number("low_freq_factor")},
                             {"high_freq_factor", number("high_freq_factor")},
                             {"original_max_position", number("original_max_position_embeddings")}};
  else if (type != "default")
    config.refuse("'" + name + ".rope_type' is " + shown(type), R"(supported are "default" and "llama3")");
}

/// "lm_head.weight" of a tied model that stores it twice, and tables that older versions stored with the
/// weights.
bool redundant(const std::string& name, const Params& params) {
  return name.ends_with(".rotary_emb.inv_freq") || (name == "lm_head.weight" && !params.contains(name));
}

std::string text(const std::vector<int64_t>& shape) { return Json(shape).dump(); }
}  // namespace

LlamaSpec llama_from_hugging_face(const fs::path& folder) {
  const Config config(folder / "config.json");
  const std::vector<std::string> kinds = {"LlamaForCausalLM", "MistralForCausalLM", "OlmoForCausalLM"};
  const Json& architectures = config["architectures"];
  const Json kind =
      checked({.type = "string", .choices = kinds},
              architectures.is_array() && architectures.size() == 1 ? architectures[0] : architectures,
              "'architectures'", config.where());
  check_unsupported(config);

  const bool olmo = kind == "OlmoForCausalLM", mistral = kind == "MistralForCausalLM";
  if (mistral) check_no_window(config);
  const Json heads = config.value("num_attention_heads", "integer");
  Json model = {{"vocab_size", config.value("vocab_size", "integer")},
                {"dim", config.value("hidden_size", "integer")},
                {"n_layers", config.value("num_hidden_layers", "integer")},
                {"n_heads", heads},
                {"n_kv_heads", config.value("num_key_value_heads", "integer", mistral ? Json(8) : heads)},
                {"head_dim", config.value("head_dim", "integer", 0)},
                {"ffn_dim", config.value("intermediate_size", "integer")},
                {"norm", olmo ? "layernorm_without_parameters" : "rmsnorm"},
                {"norm_eps", olmo ? Json(1e-5) : config.value("rms_norm_eps", "number", 1e-6)},
                {"tie_embeddings", config.value("tie_word_embeddings", "boolean", false)},
                {"init_std", config.value("initializer_range", "number", 0.02)}};
  read_rope(config, model);
  return llama_from_json(model, config.where());
}

Json hugging_face_config(const LlamaSpec& llama, int64_t max_positions) {
  if (llama.norm != NormKind::rmsnorm) throw Error("LlamaForCausalLM has RMSNorm, the spec another norm");
  Json config = {{"architectures", {"LlamaForCausalLM"}},
                 {"model_type", "llama"},
                 {"vocab_size", llama.vocab_size},
                 {"hidden_size", llama.dim},
                 {"intermediate_size", llama.ffn_dim},
                 {"num_hidden_layers", llama.n_layers},
                 {"num_attention_heads", llama.n_heads},
                 {"num_key_value_heads", llama.n_kv_heads},
                 {"head_dim", llama.head_size()},
                 {"max_position_embeddings", max_positions},
                 {"rms_norm_eps", llama.norm_eps},
                 {"rope_theta", llama.rope_theta},
                 {"rope_scaling", nullptr},
                 {"tie_word_embeddings", llama.tie_embeddings},
                 {"attention_bias", false},
                 {"mlp_bias", false},
                 {"hidden_act", "silu"},
                 {"initializer_range", llama.init_std}};
  if (const RopeScaling& scaling = llama.rope_scaling; scaling.factor != 1)
    config["rope_scaling"] = {{"rope_type", "llama3"},
                              {"factor", scaling.factor},
                              {"low_freq_factor", scaling.low_freq_factor},
                              {"high_freq_factor", scaling.high_freq_factor},
                              {"original_max_position_embeddings", scaling.original_max_position}};
  return config;
}

Checkpoint::Checkpoint(const fs::path& folder) : folder_(folder) {
  const fs::path index = folder / "model.safetensors.index.json";
  if (is_there(folder / "model.safetensors")) {
    open("model.safetensors");
    return;
  }
  if (!is_there(index))
    throw Error("no model.safetensors and no model.safetensors.index.json", "save the model as safetensors",
                folder.string());
  const Json json = read_json(index), map = json.is_object() ? json.value("weight_map", Json()) : Json();
  if (!map.is_object())
    throw Error("'weight_map' must map names to files, but is " + shown(map), {}, index.string());
  for (const auto& [name, file] : map.items()) {
    // The index comes from elsewhere: it may name files of this folder only.
    if (!file.is_string() || file.get<std::string>().find_first_of("/\\") != std::string::npos)
      throw Error("'" + name + "' is in " + shown(file) + ", which is no file of this folder", {},
                  index.string());
    open(file.get<std::string>());
  }
  for (const auto& [name, file] : map.items())
    if (const auto it = file_of_.find(name);
        it == file_of_.end() || it->second != &files_.at(file.get<std::string>()))
      throw Error("'" + name + "' is not in " + shown(file), "save the checkpoint again", index.string());
}

void Checkpoint::open(const std::string& name) {
  const auto [it, opened] = files_.try_emplace(name, folder_ / name);
  if (!opened) return;
  for (const auto& tensor : it->second.names())
    if (!file_of_.emplace(tensor, &it->second).second)
      throw Error("'" + tensor + "' is in two files, one is " + name, "save the checkpoint again",
                  folder_.string());
}

const SafetensorsFile& Checkpoint::at(const Param& param) const {
  std::vector<std::string> names;
  const auto found = file_of_.find(param.name);
  if (found == file_of_.end()) {
    for (const auto& [name, file] : file_of_) names.push_back(name);
    throw Error("the checkpoint has no '" + param.name + "'", did_you_mean(param.name, names),
                folder_.string());
  }
  const auto& entry = found->second->entry(param.name);
  if (entry.shape != param.shape)
    throw Error("'" + param.name + "' has shape " + text(entry.shape) + " in the checkpoint, but " +
                    text(param.shape) + " by config.json",
                "do the weights belong to this config.json?", folder_.string());
  if (!c10::isFloatingType(entry.dtype))
    throw Error("'" + param.name + "' is stored as " + c10::toString(entry.dtype),
                "only floating-point weights are read: save the model without quantization",
                folder_.string());
  return *found->second;
}

void Checkpoint::check_complete(const Params& model) const {
  for (const Param* param : model.all()) at(*param);
}

void Checkpoint::check_known(const Params& all) const {
  std::vector<std::string> names;
  for (const Param* param : all.all()) names.push_back(param->name);
  for (const auto& [name, file] : file_of_)
    if (!all.contains(name) && !redundant(name, all))
      throw Error("the checkpoint has '" + name + "', which the model of its config.json does not",
                  did_you_mean(name, names), folder_.string());
}

Tensor Checkpoint::read(const Param& param) const { return at(param).read(param.name); }
}  // namespace optrush
