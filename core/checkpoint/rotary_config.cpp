#include "checkpoint/rotary_config.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "spec/spec_json.h"
#include "spec/value.h"

namespace optrush {
namespace {
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

/// The settings that transformers 4 and 5 read in "rope_scaling" and "rope_parameters".
const std::vector<std::string> kSettings = {"rope_type",
                                            "rope_theta",
                                            "partial_rotary_factor",
                                            "factor",
                                            "low_freq_factor",
                                            "high_freq_factor",
                                            "original_max_position_embeddings",
                                            "attention_factor",
                                            "beta_fast",
                                            "beta_slow",
                                            "mscale",
                                            "mscale_all_dim",
                                            "truncate",
                                            "short_factor",
                                            "long_factor",
                                            "llama_4_scaling_beta",
                                            "mrope_section",
                                            "mrope_interleaved",
                                            "max_position_embeddings"};
/// Settings that may also be fields of config.json itself.
constexpr const char* kOriginalLength = "original_max_position_embeddings";
constexpr const char* kOnTop[] = {"rope_theta", "partial_rotary_factor", kOriginalLength};

/// Keys of "rope_parameters" for each type of layer.
constexpr const char *kOfWindows = "sliding_attention", *kOfOthers = "full_attention";

/// Collects the settings from all their places.
class RotarySettings {
 public:
  explicit RotarySettings(const ConfigFields& config) : config_(config) {
    for (const char* table : {"rope_scaling", "rope_parameters"}) take_table(table);
    for (const char* key : kOnTop) take(key, key, config[key]);
  }

  /// The base of layers with a window, if they have a table.
  std::optional<double> window_theta() const { return window_theta_; }
  bool has(const std::string& setting) const { return found_.contains(setting); }
  /// The place of a setting, for messages: "rope_scaling.factor".
  std::string place(const std::string& setting) const {
    return has(setting) ? found_.at(setting).place : table_ + "." + setting;
  }
  [[noreturn]] void refuse(const std::string& setting, const std::string& allowed) const {
    const Found& found = found_.at(setting);
    config_.refuse("'" + found.place + "' is " + shown(found.value), "it must be " + allowed);
  }
  /// transformers 4 reads the original length of YaRN only inside of "rope_scaling", 5 also beside it.
  void check_original_length(int64_t max_positions) const {
    const auto found = found_.find(kOriginalLength);
    if (found == found_.end() || found->second.place != kOriginalLength || table_ != "rope_scaling" ||
        found->second.value == max_positions)
      return;
    config_.refuse("'" + found->first + "' is " + shown(found->second.value) +
                       " beside 'rope_scaling', where transformers 4 ignores it and takes " +
                       "max_position_embeddings (" + std::to_string(max_positions) + ") for YaRN",
                   "move it into 'rope_scaling', which all versions read");
  }
  Json value(const std::string& setting, const std::string& type, const Json& otherwise = {}) const {
    return config_.field(has(setting) ? found_.at(setting).value : Json(), place(setting), type, otherwise);
  }

 private:
  struct Found {
    Json value;
    std::string place;
  };

  void take_table(const std::string& table) {
    const Json& fields = config_[table];
    if (fields.is_null()) return;
    if (!fields.is_object()) config_.refuse("'" + table + "' must be an object, but is " + shown(fields), {});
    table_ = table;
    if (const auto windows = fields.find(kOfWindows); windows != fields.end() && windows->is_object())
      take_table_of_windows(ConfigFields(*windows, config_.where() + ": " + table + "." + kOfWindows));
    for (const auto& [key, value] : fields.items()) {
      const std::string place = table + "." + key;
      if (key == kOfOthers && value.is_object()) {
        table_ = place;
        for (const auto& [setting, of_others] : value.items())
          take(setting, place + "." + setting, of_others);
      } else if (key != kOfWindows || !value.is_object()) {
        // "mrope" is "default" with places of images, for which "mrope_section" stands.
        take(key == "type" ? "rope_type" : key, place, value == "mrope" ? Json("default") : value);
      }
    }
  }

  void take_table_of_windows(const ConfigFields& table) {
    if (const Json type = table.value("rope_type", "string", "default"); type != "default")
      table.refuse("'rope_type' is " + shown(type) + ", which is not supported in layers with a window",
                   R"(supported value: "default")");
    if (table.value("partial_rotary_factor", "number", 1.0) != 1.0)
      table.refuse("'partial_rotary_factor' is not 1.0, which is not supported", "supported value: 1.0");
    window_theta_ = table.value("rope_theta", "number").get<double>();
  }

  void take(const std::string& setting, const std::string& place, const Json& value) {
    if (value.is_null()) return;
    if (value.is_object())
      config_.refuse("'" + place + "' has separate rotary settings for some layers, which is not supported",
                     std::string("supported tables: '") + kOfOthers + "' and '" + kOfWindows + "'");
    if (std::ranges::find(kSettings, setting) == kSettings.end())
      config_.refuse("'" + place + "' is an unknown rotary setting", "known settings: " + join(kSettings));
    const auto [it, is_new] = found_.try_emplace(setting, Found{value, place});
    if (!is_new && it->second.value != value)
      config_.refuse("'" + it->second.place + "' is " + shown(it->second.value) + ", but '" + place +
                         "' is " + shown(value) + "; versions of transformers read different ones",
                     "remove the wrong one");
  }

  const ConfigFields& config_;
  std::string table_ = "rope_scaling";
  std::optional<double> window_theta_;
  std::map<std::string, Found> found_;
};

/// The attention factor of YaRN in transformers; 0: computed from `factor`.
double attention_factor(const RotarySettings& settings, double factor) {
  if (settings.has("attention_factor")) {
    const double given = settings.value("attention_factor", "number").get<double>();
    if (given <= 0) settings.refuse("attention_factor", "a positive number");
    return given;
  }
  const double scale = settings.value("mscale", "number", 0.0),
               all = settings.value("mscale_all_dim", "number", 0.0);
  if (scale == 0 || all == 0) return 0;
  const auto of = [&](double m) { return factor <= 1 ? 1.0 : 0.1 * m * std::log(factor) + 1; };
  return of(scale) / of(all);
}
}  // namespace

RotaryConfig read_rotary(const ConfigFields& config, int64_t max_positions,
                         const Architecture& architecture) {
  check_rotary_tables(config, architecture);
  const RotarySettings settings(config);
  const Rotary& of_class = architecture.rotary;
  for (const char* setting : {"mrope_section", "mrope_interleaved"})
    if (settings.has(setting) && !of_class.images)
      config.refuse("'" + settings.place(setting) + "' is a rotary setting for images, which " +
                        architecture.name + " does not have",
                    "remove it if the model was trained without it");
  const char* window_theta = architecture.window_rope_theta;
  // Without its tables, a class with a type "proportional" has that type.
  const bool no_tables = config["rope_scaling"].is_null() && config["rope_parameters"].is_null();
  const bool by_default = of_class.proportional != 0 && no_tables;
  const std::string type = settings.value("rope_type", "string", by_default ? "proportional" : "default");
  const bool proportional = of_class.proportional != 0 && type == "proportional";
  const double usual = by_default ? of_class.proportional : of_class.fraction == 0 ? 1 : of_class.fraction;
  const auto fraction = settings.value("partial_rotary_factor", "number", usual).get<double>();
  if ((of_class.fraction == 0 && fraction != 1 && !proportional) || fraction <= 0 || fraction > 1)
    config.refuse("'" + settings.place("partial_rotary_factor") + "' is " +
                      settings.value("partial_rotary_factor", "number").dump() + ", which is not supported",
                  of_class.fraction == 0 ? "supported value: 1.0, which rotates the whole head"
                                         : "it must be above 0 and at most 1");
  if (of_class.required && no_tables)
    config.refuse(
        "'rope_scaling' and 'rope_parameters' are missing; versions of transformers differ in their "
        "defaults for " +
            std::string(architecture.name),
        R"(give them; for no scaling: "rope_scaling": {"rope_type": "default"})");
  const double beta = settings.value("llama_4_scaling_beta", "number", 0.0);
  if (beta != 0 && !of_class.queries)
    settings.refuse("llama_4_scaling_beta",
                    std::string("0: ") + architecture.name + " does not scale queries");
  RotaryConfig rotary{.theta = settings.value("rope_theta", "number", architecture.rope_theta).get<double>(),
                      .fraction = proportional ? 1 : fraction};
  constexpr double kThetaOfWindows = 10000;
  if (settings.window_theta())
    rotary.window_theta = *settings.window_theta();
  else if (window_theta != nullptr)
    rotary.window_theta = config.value(window_theta, "number", kThetaOfWindows).get<double>();
  else if (of_class.proportional != 0)
    rotary.window_theta = kThetaOfWindows;
  const auto number = [&](const char* setting) { return settings.value(setting, "number").get<double>(); };
  if (of_class.original != 0 && type != "default" && type != "longrope" && type != "su")
    config.refuse("'" + settings.place("rope_type") + "' is \"" + type + "\", which is not supported by " +
                      architecture.name,
                  R"(supported values: "default" and "longrope")");
  if (type == "default") {
    // A factor has no effect here, as in transformers.
  } else if (proportional) {
    rotary.scaling = {.type = RopeType::proportional,
                      .factor = settings.value("factor", "number", 1.0),
                      .fraction = fraction};
  } else if (type == "linear") {
    rotary.scaling = {.type = RopeType::linear, .factor = number("factor")};
  } else if (type == "llama3") {
    rotary.scaling = {.factor = number("factor"),
                      .low_freq_factor = number("low_freq_factor"),
                      .high_freq_factor = number("high_freq_factor"),
                      .original_max_position =
                          settings.value("original_max_position_embeddings", "integer", max_positions)};
  } else if (type == "yarn") {
    settings.check_original_length(max_positions);
    rotary.scaling = {
        .type = RopeType::yarn,
        .factor = number("factor"),
        .original_max_position = settings.value("original_max_position_embeddings", "integer", max_positions),
        .beta_fast = settings.value("beta_fast", "number", 32.0),
        .beta_slow = settings.value("beta_slow", "number", 1.0),
        .attention_factor = attention_factor(settings, number("factor")),
        .truncate = settings.value("truncate", "boolean", true),
        .score_mscale = of_class.mscale ? settings.value("mscale_all_dim", "number", 0.0).get<double>() : 0.0,
        .query_beta = beta};
  } else if ((type == "longrope" || type == "su") && of_class.original != 0) {
    const auto original = settings.value(kOriginalLength, "integer", of_class.original).get<int64_t>();
    rotary.scaling = {.type = RopeType::longrope,
                      .factor = static_cast<double>(max_positions) / static_cast<double>(original),
                      .original_max_position = original,
                      .attention_factor = settings.value("attention_factor", "number", 0.0),
                      .short_factor = settings.value("short_factor", "number[]").get<std::vector<double>>(),
                      .long_factor = settings.value("long_factor", "number[]").get<std::vector<double>>()};
  } else if (type == "dynamic") {
    rotary.longest = max_positions;  // beyond it, the frequencies depend on the length
  } else {
    config.refuse(
        "'" + settings.place("rope_type") + "' is \"" + type + "\", which is not supported",
        R"(supported values: "default", "linear", "llama3", "yarn", and "dynamic" up to max_position_embeddings)");
  }
  if (beta != 0 && rotary.scaling.type != RopeType::yarn)
    config.refuse(
        "'" + settings.place("llama_4_scaling_beta") + "' is not supported with 'rope_type' \"" + type + "\"",
        R"(supported: "yarn")");
  rotary.written = type == "dynamic" ? Json{{"rope_type", type}, {"factor", number("factor")}}
                                     : written_rope_scaling(rotary.scaling);
  return rotary;
}

Json written_rope_scaling(const RopeScaling& scaling) {
  if (!scaling.rescales()) return nullptr;
  Json written = {{"rope_type", record::written(scaling).at("type")}, {"factor", scaling.factor}};
  if (scaling.type == RopeType::proportional) written["partial_rotary_factor"] = scaling.fraction;
  if (scaling.type == RopeType::linear || scaling.type == RopeType::proportional) return written;
  written["original_max_position_embeddings"] = scaling.original_max_position;
  if (scaling.type == RopeType::llama3) {
    written["low_freq_factor"] = scaling.low_freq_factor;
    written["high_freq_factor"] = scaling.high_freq_factor;
    return written;
  }
  if (scaling.attention_factor != 0) written["attention_factor"] = scaling.attention_factor;
  if (scaling.type == RopeType::longrope) {
    written["short_factor"] = scaling.short_factor;
    written["long_factor"] = scaling.long_factor;
  } else {
    written["beta_fast"] = scaling.beta_fast;
    written["beta_slow"] = scaling.beta_slow;
    if (!scaling.truncate) written["truncate"] = false;
    if (scaling.score_mscale != 0) written["mscale_all_dim"] = scaling.score_mscale;
    if (scaling.query_beta != 0) written["llama_4_scaling_beta"] = scaling.query_beta;
  }
  return written;
}
}  // namespace optrush
