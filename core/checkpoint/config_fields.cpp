#include "checkpoint/config_fields.h"

#include <algorithm>
#include <cmath>
#include <regex>
#include <utility>

#include "base/files.h"
#include "optrush/error.h"
#include "spec/value.h"

namespace optrush {
namespace {
/// Python writes infinite numbers in a form that JSON lacks. They get the form of transformers 5.
Json read_config(const std::filesystem::path& file) {
  static const std::regex infinity(R"(([\[:,]\s*)(-?Infinity)(?=\s*[,\]}]))");
  const std::string text = std::regex_replace(read_file(file), infinity, R"($1{"__float__": "$2"})");
  return parse_stored(text, file.string());
}
}  // namespace

ConfigFields::ConfigFields(const std::filesystem::path& file)
    : ConfigFields(read_config(file), file.string()) {}

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

void check_constant(const ConfigFields& config, const char* key, const Json& value, const char* why) {
  if (const Json& given = config[key]; !given.is_null() && given != value)
    config.refuse("'" + std::string(key) + "' is " + shown(given) + ", " + why,
                  "supported value: " + value.dump());
}

namespace {
constexpr const char *kWindowed = "sliding_attention", *kFull = "full_attention",
                     *kLinear = "linear_attention";
constexpr std::pair<const char*, const char*> kOfMamba[] = {{"mamba", kLinear}, {"attention", kFull}};

/// The layers with full attention; the others are `other`. From "layer_types", or from `is_other` if that is
/// missing.
Json full_layers(const ConfigFields& config, const char* other,
                 const std::function<bool(int64_t layer)>& is_other) {
  const int64_t layers = layers_of(config);
  const Json& types = config["layer_types"];
  if (!types.is_null() && (!types.is_array() || std::ssize(types) != layers))
    config.refuse("'layer_types' is " + shown(types),
                  "it must be a list with one type for each of the " + std::to_string(layers) + " layers");
  Json full = Json::array();
  for (int64_t layer = 0; layer < layers; ++layer) {
    Json type =
        types.is_null() ? Json(is_other(layer) ? other : kFull) : types.at(static_cast<size_t>(layer));
    for (const auto& [older, name] : kOfMamba)
      if (type == older) type = name;
    if (type != other && type != kFull)
      config.refuse("'layer_types' names " + shown(type) + ", which is not supported",
                    std::string("supported values: \"") + kFull + "\" and \"" + other + "\"");
    if (type == kFull) full.push_back(layer);
  }
  return full;
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
  if (window == 0) {
    if (const Json& types = config["layer_types"];
        types.is_array() && std::ranges::find(types, Json(kWindowed)) != types.end())
      config.refuse(std::string("'layer_types' names \"") + kWindowed + "\", but the model has no window",
                    "set 'sliding_window' (and 'use_sliding_window', where the class has it), or name \"" +
                        std::string(kFull) + "\" only");
    return;
  }
  const Json full = full_layers(config, kWindowed, windowed);
  if (std::ssize(full) == layers_of(config)) return;
  fields["window"] = window;
  fields["full_attention_layers"] = full;
}

void read_linear_layers(const ConfigFields& config, Json& fields) {
  check_constant(config, "hidden_act", "silu", "which the short convolution does not support");
  const int64_t interval = config.value("full_attention_interval", "integer", 4).get<int64_t>();
  if (interval < 1)
    config.refuse("'full_attention_interval' is " + std::to_string(interval), "it must be at least 1");
  const Json full = full_layers(config, kLinear, [&](int64_t layer) { return (layer + 1) % interval != 0; });
  if (std::ssize(full) == layers_of(config))
    for (const char* linear : {"delta_net", "mamba"}) fields.erase(linear);
  else
    fields["full_attention_layers"] = full;
}

void write_layer_types(const LlamaSpec& spec, Json& config) {
  write_window(spec, config);
  config["layer_types"] = Json::array();
  for (int64_t layer = 0; layer < spec.n_layers; ++layer)
    config["layer_types"].push_back(spec.has_linear_attention(layer) ? kLinear
                                    : spec.window_of(layer) == 0     ? kFull
                                                                     : kWindowed);
}

void name_mamba_layers(Json& config) {
  for (Json& type : config["layer_types"])
    for (const auto& [older, name] : kOfMamba)
      if (type == name) type = older;
}

void check_step_limit(const ConfigFields& config) {
  check_constant(config, "time_step_limit", Json::array({0.0, {{"__float__", "Infinity"}}}),
                 "which versions of transformers ignore");
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

void read_attention_multiplier(const ConfigFields& config, Json& fields) {
  fields["attention_scale"] = config.value("attention_multiplier", "number", 1.0);
}
void write_attention_multiplier(const LlamaSpec& spec, Json& config) {
  config["attention_multiplier"] = spec.score_scale();
}

double soft_cap_of(const ConfigFields& config, const char* key, double otherwise) {
  if (!config.contains(key)) return otherwise;
  const double cap = config.value(key, "number", 0.0).get<double>();
  if (cap < 0 || (cap == 0 && !config[key].is_null()))
    config.refuse("'" + std::string(key) + "' is " + shown(config[key]), "it must be null or positive");
  return cap;
}

Json written_soft_cap(double cap) { return cap == 0 ? Json() : Json(cap); }
}  // namespace optrush
