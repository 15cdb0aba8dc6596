#include "cli/overrides.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/contains.h"
#include "base/suggest.h"
#include "base/text.h"
#include "checkpoint/check_checkpoint.h"
#include "experiment/stack.h"
#include "optrush/error.h"
#include "plugin/description.h"
#include "spec/spec_json.h"
#include "spec/value.h"

namespace optrush {
namespace {
/// A part of the experiment that stacks plugins.
struct Place {
  std::string name;  ///< "the base", "rung 'adapters'"
  std::vector<PluginUse>* plugins;
};

std::vector<Place> places_of(Experiment& experiment) {
  std::vector<Place> places = {{"the base", &experiment.base.plugins}};
  const auto add = [&](std::vector<Rung>& rungs) {
    for (auto& rung : rungs) places.push_back({"rung '" + rung.name + "'", &rung.plugins});
  };
  for (auto& part : experiment.parts) {
    add(part.rungs);
    for (auto& axis : part.axes) add(axis);
  }
  return places;
}

/// The names of all plugins that an experiment stacks, without repetition.
std::vector<std::string> stacked_plugins(const Experiment& experiment) {
  std::set<std::string> names;
  Experiment copy = experiment;
  for (const auto& place : places_of(copy))
    for (const auto& use : *place.plugins) names.insert(use.name);
  return {names.begin(), names.end()};
}

/// Sets an option of a plugin wherever the experiment stacks the plugin, checked against its description.
/// `keys`: {"adapter", "rank"}. It is an Error if rungs differ in this option, as they would become equal.
void set_plugin_option(Experiment& experiment, const std::vector<std::string>& keys, const std::string& text,
                       const std::string& where) {
  const Catalogue catalogue = Catalogue::find(experiment.base.plugin_path);
  const PluginDescription& plugin = catalogue.at(keys.front());
  if (keys.size() != 2) {
    const auto options =
        texts_of(plugin.options, [&](const auto& option) { return plugin.name + "." + option.name; });
    throw Error(ErrorCode::invalid_value, "'" + plugin.name + "' is a plugin",
                options.empty() ? "it has no options" : "set one of its options: " + join(options), where);
  }
  const std::string& option = keys[1];
  const Json value = text_value(text, plugin.type_of(option));
  std::vector<std::string> before;
  std::set<Json> values;
  for (const auto& place : places_of(experiment))
    for (auto& use : *place.plugins) {
      if (use.name != plugin.name) continue;
      Json options = use.options;
      options[option] = value;
      options = Options(plugin.options, options, where).json();
      for (const auto& each : plugin.options)
        if (const std::string path = each.type == "folder" ? options[each.name] : Json(""); !path.empty())
          options[each.name] = std::filesystem::absolute(path).lexically_normal();
      const Json old = use.options.value(option, Json());
      before.push_back(place.name + " has " + shown(old));
      values.insert(old);
      use.options = std::move(options);
    }
  if (values.size() > 1)
    throw Error(ErrorCode::conflict,
                "--set " + plugin.name + "." + option + " would make these rungs identical: " + join(before),
                "change them in the script, or run some of them with --only", where);
}

const std::vector<std::string> kOfExperiment = {"rounds",      "seeds",          "target_loss",
                                                "stop_behind", "price_per_hour", "currency"};
const std::vector<std::string> kOfSpec = {"model", "data", "train", "device", "threads", "env", "timeout"};
// Settings of the base only, because rungs are compared by one validation.
const std::vector<std::string> kOfBase = {"validate", "save"};

void set_in_experiment(Experiment& experiment, const std::string& key, const Json& value,
                       const std::string& where) {
  if (key == "seeds") return set_seeds(value, experiment, where);
  Json json = to_json(experiment);
  json[key] = value;
  experiment = experiment_from_json(json, where);
  if (key == "rounds") experiment.until.reset();
}

void set_in_base(Experiment& experiment, const Json& settings, const std::string& where) {
  Json json = to_json(experiment.base);
  json.merge_patch(settings);
  experiment.base = run_spec_from_json(json, where);
}

void leave_rounds_open(const Overrides& overrides, Experiment& experiment) {
  if (!overrides.within && !overrides.at_most) return;
  const auto sets_rounds = [](const std::string& assignment) { return assignment.starts_with("rounds="); };
  if (overrides.rounds || std::ranges::any_of(overrides.set, sets_rounds))
    throw UsageError("rounds cannot be combined with --within and --at-most", "give one of them");
  if (!experiment.until && !overrides.at_most)
    throw UsageError("--within needs --at-most, the time limit", "for example --within 0.03 --at-most 5m");
  Until until = experiment.until.value_or(Until{});
  if (overrides.within) until.within = *overrides.within;
  if (overrides.at_most) until.at_most_s = seconds_from(*overrides.at_most, "--at-most");
  experiment.until = fields_of<Until>().read(record::written(until), "--within");
}

/// Makes paths absolute: a path on the command line starts at the working directory.
void place_paths(Json& settings, const std::string& where) {
  for (const char* field : {"/model/checkpoint", "/data/path", "/validate/data/path"}) {
    const Json::json_pointer pointer(field);
    if (!settings.contains(pointer) || !settings.at(pointer).is_string() || settings.at(pointer) == "")
      continue;
    const auto path = std::filesystem::absolute(settings.at(pointer).get<std::string>()).lexically_normal();
    if (!std::filesystem::exists(path))
      throw UsageError(ErrorCode::missing_file, "no file or folder '" + path.string() + "'",
                       "relative paths on the command line start at the working directory", where);
    settings[pointer] = path.string();
  }
}

/// The settings of an assignment for every spec; null if it set something else.
Json set(Experiment& experiment, const std::string& assignment) {
  const std::string where = "--set " + assignment;
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0)
    throw UsageError("--set takes key=value, not '" + assignment + "'", "for example --set train.steps=20");
  auto keys = split(assignment.substr(0, equals), ".");
  // The value of an environment variable is text, even if it looks like a number.
  const std::string text = assignment.substr(equals + 1);
  const Json value = keys.size() > 1 && keys[0] == "env" ? Json(text) : text_value(text);
  if (keys.size() == 1 && contains(kOfExperiment, keys[0])) {
    set_in_experiment(experiment, keys[0], value, where);
    return {};
  }
  const bool of_base = contains(kOfBase, keys[0]);
  if (!of_base && !contains(kOfSpec, keys[0]) && keys[0] != "timeout_s") {
    const auto plugins = stacked_plugins(experiment);
    if (contains(plugins, keys[0])) {
      set_plugin_option(experiment, keys, text, where);
      return {};
    }
    auto allowed = kOfSpec;
    for (const auto& more : {kOfBase, kOfExperiment, plugins})
      allowed.insert(allowed.end(), more.begin(), more.end());
    throw UsageError(ErrorCode::unknown_name,
                     "there is no setting '" + keys[0] + "', and no rung stacks a plugin of that name",
                     to_json(experiment.base).at("train").contains(keys[0])
                         ? "did you mean 'train." + keys[0] + "'?"
                         : did_you_mean(keys[0], allowed),
                     where);
  }
  Json settings = value;
  if (keys[0] == "timeout") keys[0] = "timeout_s";  // the name in a spec includes the unit
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) settings = Json{{*key, std::move(settings)}};
  place_paths(settings, where);
  if (!of_base) return settings;
  set_in_base(experiment, settings, where);
  return {};
}

/// Applies assignments in order. Some are valid only together, such as lr_decay and lr_steps.
void set_all(Experiment& experiment, const std::vector<std::string>& assignments) {
  Json refused;
  std::string where;
  for (const auto& assignment : assignments) {
    const Json settings = set(experiment, assignment);
    if (settings.is_null()) continue;
    check_dtype(
        settings, [&] { return Catalogue::find(experiment.base.plugin_path); }, "--set " + assignment);
    try {
      experiment.base = merged(experiment.base, settings, "--set " + assignment);
    } catch (const Error&) {
      refused.merge_patch(settings);
      where += (where.empty() ? "--set " : " --set ") + assignment;
    }
  }
  if (!refused.is_null()) experiment.base = merged(experiment.base, refused, where);
}
}  // namespace

void apply(const Overrides& overrides, Experiment& experiment) try {
  const auto before = checkpoint_of(experiment.base);
  set_all(experiment, overrides.set);
  if (const auto now = checkpoint_of(experiment.base); !now.empty() && now != before)
    check_checkpoint(now, "--set model.checkpoint=" + now.string());
  if (overrides.rounds) {
    experiment.rounds = *overrides.rounds;
    experiment.until.reset();
  }
  leave_rounds_open(overrides, experiment);
  if (overrides.interleave)
    set_in_experiment(experiment, "interleave", *overrides.interleave, "--interleave");
  if (overrides.trace) experiment.trace = true;
  if (overrides.max_restarts) experiment.max_restarts = *overrides.max_restarts;
  if (overrides.label) experiment.label = *overrides.label;
  if (overrides.device)
    experiment.base = merged(experiment.base, {{"device", *overrides.device}}, "--device");
  if (overrides.threads)
    experiment.base = merged(experiment.base, {{"threads", *overrides.threads}}, "--threads");
} catch (const UsageError&) {
  throw;
} catch (const Error& e) {
  throw UsageError(e);
}
}  // namespace optrush
