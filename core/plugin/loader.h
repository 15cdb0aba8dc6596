#pragma once
#include <memory>
#include <string>
#include <vector>

#include "optrush/plugin.h"
#include "plugin/description.h"
#include "recipe/run_recipe.h"

namespace optrush {
/// A plugin of a run: its description, its validated options and its instance.
struct LoadedPlugin {
  PluginDescription description;
  std::string sha256;
  Options options;
  std::unique_ptr<Plugin> instance;
};

/// Loads the plugins of a spec in order of names. Each step has a separate error: unknown name, another
/// build, conflict or missing requirement, unresolved symbols, no entry point, invalid options. Libraries
/// stay loaded until the process ends.
std::vector<LoadedPlugin> load_plugins(const RunSpec&, const Catalogue&);
/// Calls apply() of each plugin. Exceptions get the plugin's name.
void apply_plugins(std::vector<LoadedPlugin>&, RunRecipe&);
}  // namespace optrush
