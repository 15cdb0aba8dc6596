#include "cli/plugin_override.h"

#include <algorithm>
#include <set>

#include "base/suggest.h"
#include "optrush/error.h"
#include "plugin/description.h"
#include "spec/text_value.h"
#include "spec/value.h"

namespace optrush {
namespace {
/// A place that stacks plugins.
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

std::string type_of(const PluginDescription& plugin, const std::string& option) {
  const auto found = std::ranges::find(plugin.options, option, &OptionSchema::name);
  return found == plugin.options.end() ? "" : found->type;
}
}  // namespace

std::vector<std::string> stacked_plugins(const Experiment& experiment) {
  std::set<std::string> names;
  Experiment copy = experiment;
  for (const auto& place : places_of(copy))
    for (const auto& use : *place.plugins) names.insert(use.name);
  return {names.begin(), names.end()};
}

void set_plugin_option(Experiment& experiment, const std::vector<std::string>& keys, const std::string& text,
                       const std::string& where) {
  const Catalogue catalogue = Catalogue::find(experiment.base.plugin_path);
  const PluginDescription& plugin = catalogue.at(keys.front());
  if (keys.size() != 2) {
    std::vector<std::string> options;
    for (const auto& option : plugin.options) options.push_back(plugin.name + "." + option.name);
    throw Error("'" + plugin.name + "' is a plugin",
                options.empty() ? "it has no options" : "set one of its options: " + join(options), where);
  }
  const std::string& option = keys[1];
  const Json value = text_value(text, type_of(plugin, option));
  std::vector<std::string> before;
  std::set<Json> values;
  for (const auto& place : places_of(experiment))
    for (auto& use : *place.plugins) {
      if (use.name != plugin.name) continue;
      Json options = use.options;
      options[option] = value;
      options = Options(plugin.options, options, where).json();
      const Json old = use.options.value(option, Json());
      before.push_back(place.name + " has " + shown(old));
      values.insert(old);
      use.options = std::move(options);
    }
  if (values.size() > 1)
    throw Error("rungs that differ in " + plugin.name + "." + option + " would become alike: " + join(before),
                "change them in the script, or run some of them with --only", where);
}
}  // namespace optrush
