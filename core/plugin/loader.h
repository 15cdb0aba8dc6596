#pragma once
#include <memory>
#include <string>
#include <vector>

#include "optrush/plugin.h"
#include "plugin/description.h"
#include "recipe/run_recipe.h"
#include "spec/spec_json.h"

namespace optrush {
/// A plugin of one run: what its file says, its validated options, its instance.
struct LoadedPlugin {
  PluginDescription description;
  std::string sha256;
  Options options;
  std::unique_ptr<Plugin> instance;
};

/// Loads what the spec stacks, in order of names. Each step has its own error: unknown name, another build,
/// conflict or missing requirement, symbols that can't be resolved, no entry point, options out of range.
/// Libraries stay loaded until the process ends.
std::vector<LoadedPlugin> load_plugins(const RunSpec&, const Catalogue&);
/// Calls apply() of each; an exception gets the plugin's name.
void apply_plugins(std::vector<LoadedPlugin>&, RunRecipe&);
}  // namespace optrush
