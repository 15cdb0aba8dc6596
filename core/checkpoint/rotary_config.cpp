#include "checkpoint/rotary_config.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/suggest.h"
#include "spec/spec_fields.h"
#include "spec/value.h"

namespace optrush {
namespace {
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
                                            "long_factor"};
/// Settings that may also be fields of config.json itself.
constexpr const char* kOnTop[] = {"rope_theta", "partial_rotary_factor", "original_max_position_embeddings"};

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
        take(key == "type" ? "rope_type" : key, place, value);
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
}  // namespace

Json written_rope_scaling(const RopeScaling& scaling) {
  if (scaling.factor == 1) return nullptr;
  Json written = {{"rope_type", rope_scaling_fields().write(scaling).at("type")}, {"factor", scaling.factor}};
  if (scaling.type == RopeType::linear) return written;
  written["original_max_position_embeddings"] = scaling.original_max_position;
  if (scaling.type == RopeType::llama3) {
    written["low_freq_factor"] = scaling.low_freq_factor;
    written["high_freq_factor"] = scaling.high_freq_factor;
  } else {
    written["beta_fast"] = scaling.beta_fast;
    written["beta_slow"] = scaling.beta_slow;
    if (scaling.attention_factor != 0) written["attention_factor"] = scaling.attention_factor;
    if (!scaling.truncate) written["truncate"] = false;
  }
  return written;
}

namespace {
/// The attention factor of YaRN in transformers; 0: computed from `factor`.
double attention_factor(const RotarySettings& settings, double factor) {
  if (settings.has("attention_factor")) return settings.value("attention_factor", "number").get<double>();
  const double scale = settings.value("mscale", "number", 0.0),
               all = settings.value("mscale_all_dim", "number", 0.0);
  if (scale == 0 || all == 0) return 0;
  const auto of = [&](double m) { return factor <= 1 ? 1.0 : 0.1 * m * std::log(factor) + 1; };
  return of(scale) / of(all);
}
}  // namespace

RotaryConfig read_rotary(const ConfigFields& config, int64_t max_positions, double theta,
                         const char* window_theta) {
  const RotarySettings settings(config);
  if (settings.value("partial_rotary_factor", "number", 1.0) != 1.0)
    config.refuse("'" + settings.place("partial_rotary_factor") + "' is " +
                      settings.value("partial_rotary_factor", "number").dump() + ", which is not supported",
                  "supported value: 1.0, which rotates the whole head");
  RotaryConfig rotary{.theta = settings.value("rope_theta", "number", theta).get<double>()};
  constexpr double kThetaOfWindows = 10000;
  if (settings.window_theta())
    rotary.window_theta = *settings.window_theta();
  else if (window_theta != nullptr)
    rotary.window_theta = config.value(window_theta, "number", kThetaOfWindows).get<double>();
  const std::string type = settings.value("rope_type", "string", "default");
  const auto number = [&](const char* setting) { return settings.value(setting, "number").get<double>(); };
  if (type == "default") {
    // A factor has no effect here, as in transformers.
  } else if (type == "linear") {
    rotary.scaling = {.type = RopeType::linear, .factor = number("factor")};
  } else if (type == "llama3") {
    rotary.scaling = {.factor = number("factor"),
                      .low_freq_factor = number("low_freq_factor"),
                      .high_freq_factor = number("high_freq_factor"),
                      .original_max_position =
                          settings.value("original_max_position_embeddings", "integer", max_positions)};
  } else if (type == "yarn") {
    rotary.scaling = {
        .type = RopeType::yarn,
        .factor = number("factor"),
        .original_max_position = settings.value("original_max_position_embeddings", "integer", max_positions),
        .beta_fast = settings.value("beta_fast", "number", 32.0),
        .beta_slow = settings.value("beta_slow", "number", 1.0),
        .attention_factor = attention_factor(settings, number("factor")),
        .truncate = settings.value("truncate", "boolean", true)};
  } else if (type == "dynamic") {
    rotary.longest = max_positions;  // beyond it, the frequencies depend on the length
  } else {
    config.refuse(
        "'" + settings.place("rope_type") + "' is \"" + type + "\", which is not supported",
        R"(supported values: "default", "linear", "llama3", "yarn", and "dynamic" up to max_position_embeddings)");
  }
  rotary.written = type == "dynamic" ? Json{{"rope_type", type}, {"factor", number("factor")}}
                                     : written_rope_scaling(rotary.scaling);
  return rotary;
}
}  // namespace optrush
