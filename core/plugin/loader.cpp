#include "plugin/loader.h"

#define BOOST_DLL_USE_STD_FS
#include <dlfcn.h>

#include <algorithm>
#include <boost/dll/shared_library.hpp>

#include "base/files.h"
#include "optrush/error.h"
#include "recipe/boundary.h"

namespace optrush {
namespace {
using CreatePlugin = Plugin*();

boost::dll::shared_library open_library(const PluginDescription& plugin) {
  // RTLD_NODELETE: the code of a plugin may run until the process ends.
  const auto mode = boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local |
                    static_cast<boost::dll::load_mode::type>(RTLD_NODELETE);
  boost::dll::fs::error_code failure;
  boost::dll::shared_library library(plugin.file, mode, failure);
  if (failure) {
    const char* reason = ::dlerror();
    throw Error(ErrorCode::invalid_plugin,
                "plugin '" + plugin.name + "' (" + plugin.file.string() +
                    ") cannot be loaded: " + (reason != nullptr ? reason : failure.message()),
                "rebuild it with optrush_add_plugin() against this host");
  }
  return library;
}

std::unique_ptr<Plugin> create(const PluginDescription& plugin) {
  const auto library = open_library(plugin);
  if (!library.has("optrush_create_plugin"))
    throw Error(ErrorCode::invalid_plugin,
                "plugin '" + plugin.name + "' (" + plugin.file.string() +
                    ") has no entry point optrush_create_plugin",
                "end its source with OPTRUSH_PLUGIN(Class, description)");
  std::unique_ptr<Plugin> instance;
  call_plugin("plugin '" + plugin.name + "' in its constructor",
              [&] { instance.reset(library.get<CreatePlugin>("optrush_create_plugin")()); });
  if (!instance)
    throw Error(ErrorCode::invalid_plugin,
                "optrush_create_plugin of plugin '" + plugin.name + "' returned nothing");
  return instance;
}
}  // namespace

std::vector<LoadedPlugin> load_plugins(const RunSpec& spec, const Catalogue& catalogue) {
  std::vector<LoadedPlugin> plugins;
  for (const auto& use : spec.plugins) {
    const auto& description = catalogue.at(use.name);
    check_compatible(description);
    plugins.push_back(
        {description, {}, Options(description.options, use.options, "plugin '" + use.name + "'"), {}});
  }
  catalogue.check_stack(spec.plugins);
  std::sort(plugins.begin(), plugins.end(),
            [](const auto& a, const auto& b) { return a.description.name < b.description.name; });
  for (auto& plugin : plugins) {
    plugin.sha256 = sha256_file(plugin.description.file);
    plugin.instance = create(plugin.description);
  }
  return plugins;
}

void apply_plugins(std::vector<LoadedPlugin>& plugins, RunRecipe& recipe) {
  for (auto& plugin : plugins) {
    recipe.edit_as(plugin.description.name);
    const std::string where = "plugin '" + plugin.description.name + "' in apply";
    call_plugin(where, [&] { plugin.instance->apply(recipe, plugin.options); });
  }
  recipe.edit_as("host");
}
}  // namespace optrush
