#include "checkpoint/config_fields.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/files.h"
#include "optrush/error.h"
#include "spec/value.h"

namespace optrush {
ConfigFields::ConfigFields(const std::filesystem::path& file)
    : ConfigFields(read_json(file), file.string()) {}

ConfigFields::ConfigFields(Json contents, std::string where)
    : where_(std::move(where)), json_(std::move(contents)) {
  if (!json_.is_object()) refuse("must be an object, but is " + shown(json_), {});
}

const Json& ConfigFields::operator[](const std::string& key) const {
  static const Json absent;
  const auto it = json_.find(key);
  return it == json_.end() ? absent : *it;
}

Json ConfigFields::field(const Json& value, const std::string& name, const std::string& type,
                         const Json& otherwise) const {
  if (value.is_null() && otherwise.is_null())
    throw Error(ErrorCode::invalid_file, "'" + name + "' is missing", {}, where_);
  return value.is_null() ? otherwise : checked({.type = type}, value, "'" + name + "'", where_);
}

void ConfigFields::refuse(const std::string& what, const std::string& cure) const {
  throw Error(ErrorCode::invalid_file, what, cure, where_);
}

namespace {
constexpr const char *kWindowed = "sliding_attention", *kFull = "full_attention";

/// Layers with an MLP instead of experts: those in "mlp_only_layers" and those that "decoder_sparse_step"
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
}  // namespace

int64_t layers_of(const ConfigFields& config) {
  return config.value("num_hidden_layers", "integer").get<int64_t>();
}

int64_t window_of(const ConfigFields& config, int64_t otherwise) {
  if (!config.contains("sliding_window")) return otherwise;
  const int64_t window = config.value("sliding_window", "integer", 0).get<int64_t>();
  if (window < 0 || (window == 0 && !config["sliding_window"].is_null()))
    config.refuse("'sliding_window' is " + config["sliding_window"].dump(),
                  "it must be null or a number of positions");
  return window;
}

void read_window(const ConfigFields& config, int64_t otherwise, Json& fields) {
  if (const int64_t window = window_of(config, otherwise); window != 0) fields["window"] = window;
}
void write_window(const LlamaSpec& spec, Json& config) {
  config["sliding_window"] = spec.window == 0 ? Json() : Json(spec.window);
}

void read_windows(const ConfigFields& config, int64_t window,
                  const std::function<bool(int64_t layer)>& windowed, Json& fields) {
  const int64_t layers = layers_of(config);
  const Json& types = config["layer_types"];
  if (window == 0) {
    if (types.is_array() && std::ranges::find(types, Json(kWindowed)) != types.end())
      config.refuse(std::string("'layer_types' names \"") + kWindowed + "\", but the model has no window",
                    "set 'sliding_window' (and 'use_sliding_window', where the class has it), or name \"" +
                        std::string(kFull) + "\" only");
    return;
  }
  if (!types.is_null() && (!types.is_array() || std::ssize(types) != layers))
    config.refuse("'layer_types' is " + shown(types),
                  "it must be a list with one type for each of the " + std::to_string(layers) + " layers");
  Json full = Json::array();
  for (int64_t layer = 0; layer < layers; ++layer) {
    const Json type =
        types.is_null() ? Json(windowed(layer) ? kWindowed : kFull) : types.at(static_cast<size_t>(layer));
    if (type != kWindowed && type != kFull)
      config.refuse("'layer_types' names " + shown(type) + ", which is not supported",
                    std::string("supported values: \"") + kFull + "\" and \"" + kWindowed + "\"");
    if (type == kFull) full.push_back(layer);
  }
  if (std::ssize(full) == layers) return;
  fields["window"] = window;
  fields["full_attention_layers"] = full;
}

void write_layer_types(const LlamaSpec& spec, Json& config) {
  write_window(spec, config);
  config["layer_types"] = Json::array();
  for (int64_t layer = 0; layer < spec.n_layers; ++layer)
    config["layer_types"].push_back(spec.window_of(layer) == 0 ? kFull : kWindowed);
}

void read_attention_bias(const ConfigFields& config, Json& fields) {
  if (config.value("attention_bias", "boolean", false)) fields["attention_bias"] = "all";
}
void write_attention_bias(const LlamaSpec& spec, Json& config) {
  config["attention_bias"] = spec.attention_bias == AttentionBias::all;
}

void read_query_scalar(const ConfigFields& config, Json& fields) {
  const auto scalar = config.value("query_pre_attn_scalar", "number", 256).get<double>();
  if (scalar <= 0)
    config.refuse("'query_pre_attn_scalar' is " + shown(config["query_pre_attn_scalar"]),
                  "it must be positive");
  fields["attention_scale"] = std::pow(scalar, -0.5);
}
void write_query_scalar(const LlamaSpec& spec, Json& config) {
  const double scalar = 1 / (spec.score_scale() * spec.score_scale()), whole = std::round(scalar);
  const bool is_whole = std::pow(whole, -0.5) == spec.score_scale();
  config["query_pre_attn_scalar"] = is_whole ? Json(static_cast<int64_t>(whole)) : Json(scalar);
}

double soft_cap_of(const ConfigFields& config, const char* key, double otherwise) {
  if (!config.contains(key)) return otherwise;
  const double cap = config.value(key, "number", 0.0).get<double>();
  if (cap < 0 || (cap == 0 && !config[key].is_null()))
    config.refuse("'" + std::string(key) + "' is " + shown(config[key]), "it must be null or positive");
  return cap;
}

Json written_soft_cap(double cap) { return cap == 0 ? Json() : Json(cap); }

void read_experts(const ConfigFields& config, int64_t per_token, bool normalized, Json& fields) {
  if (config.value("output_router_logits", "boolean", false))
    config.refuse(
        "'output_router_logits' is true: transformers would add the load-balancing loss of the router to the "
        "loss",
        "set it to false; a plugin can add that loss to a training run (see docs/guides/models_and_data.md)");
  const bool local = config["num_experts"].is_null() && !config["num_local_experts"].is_null();
  fields["n_experts"] = config.value(local ? "num_local_experts" : "num_experts", "integer");
  if (const Json& other = config["num_local_experts"]; !other.is_null() && other != fields["n_experts"])
    config.refuse("'num_experts' is " + shown(config["num_experts"]) + ", but 'num_local_experts' is " +
                      shown(other) + "; versions of transformers read different ones",
                  "remove the wrong one");
  fields["experts_per_token"] = config.value("num_experts_per_tok", "integer", per_token);
  fields["normalize_router"] = normalized;
}
void name_experts(int64_t experts, Json& config) {
  for (const char* name : {"num_experts", "num_local_experts"}) config[name] = experts;
}
void write_experts(const LlamaSpec& spec, Json& config) {
  name_experts(spec.n_experts, config);
  config["num_experts_per_tok"] = spec.experts_per_token;
  config["output_router_logits"] = false;
}

void read_experts_of_qwen(const ConfigFields& config, int64_t per_token, int64_t width, Json& fields) {
  read_experts(config, per_token, config.value("norm_topk_prob", "boolean", false), fields);
  fields["expert_ffn_dim"] = config.value("moe_intermediate_size", "integer", width);
  read_dense_layers(config, fields);
}
void write_experts_of_qwen(const LlamaSpec& spec, Json& config) {
  write_experts(spec, config);
  config["norm_topk_prob"] = spec.normalize_router;
  config["moe_intermediate_size"] = spec.expert_ffn_dim != 0 ? spec.expert_ffn_dim : spec.ffn_dim;
  config["mlp_only_layers"] = spec.dense_layers;
  config["decoder_sparse_step"] = 1;
}
}  // namespace optrush
