#include "authoring/commands.h"

#include <iostream>
#include <memory>

#include "authoring/new_plugin.h"
#include "authoring/stubs.h"
#include "cli/commands.h"
#include "cli/option_parts.h"
#include "machine/installation.h"
#include "machine/torch_folder.h"
#include "plugin/description.h"

namespace optrush {
namespace {
std::filesystem::path sdk_folder() {
  return Installation::of_this_program().root;  // an installation or a build tree; both work as prefixes
}

std::filesystem::path torch() {
  auto found = torch_folder();
  if (found.empty())
    throw Error(
        ErrorCode::missing_requirement, "no torch was found",
        "set OPTRUSH_TORCH to the folder of a torch package, or OPTRUSH_PYTHON to a Python with torch");
  return found;
}

void add_new_plugin_command(CLI::App& app, int& code) {
  struct Options {
    std::string name;
    std::filesystem::path folder;
    bool kernel = false, optimizer = false;
  };
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("new-plugin", "create a plugin from a template, with a test");
  command->add_option("name", options->name, "name of the plugin, for example wide_swiglu")->required();
  command->add_option("--dir", options->folder, "folder to create; default: ./NAME")->type_name("FOLDER");
  auto* kernel = command->add_flag("--kernel", options->kernel, "add a GPU kernel to the CPU version");
  command->add_flag("--optimizer", options->optimizer, "create an optimizer that replaces AdamW")
      ->excludes(kernel);
  command->callback([options, &code] {
    const auto folder = options->folder.empty() ? std::filesystem::path(options->name) : options->folder;
    write_new_plugin(options->name, folder,
                     options->kernel      ? NewPlugin::kernel
                     : options->optimizer ? NewPlugin::optimizer
                                          : NewPlugin::wrap);
    std::cout << "written to " << folder.string() << "; " << (folder / "README.md").string()
              << " describes how to build it" << std::endl;
    code = kOk;
  });
}

void add_sdk_command(CLI::App& app, int& code) {
  auto of_torch = std::make_shared<bool>(false);
  auto* command = app.add_subcommand("sdk", "print the CMAKE_PREFIX_PATH for building plugins");
  command->add_flag("--torch", *of_torch, "print the folder of the torch that plugins must use");
  command->callback([of_torch, &code] {
    std::cout << (*of_torch ? torch() : sdk_folder()).string() << std::endl;
    code = kOk;
  });
}

void add_stubs_command(CLI::App& app, int& code) {
  auto folders = std::make_shared<std::vector<std::string>>();
  auto* command =
      app.add_subcommand("stubs", "print the Lua library's editor stubs, with the plugins' options");
  add_plugin_path(*command, *folders);
  command->callback([folders, &code] {
    std::cout << lua_stubs(Catalogue::find(*folders).plugins()) << std::flush;
    code = kOk;
  });
}
}  // namespace

void authoring::add_commands(CLI::App& app, int& code) {
  add_new_plugin_command(app, code);
  add_sdk_command(app, code);
  add_stubs_command(app, code);
}
}  // namespace optrush
