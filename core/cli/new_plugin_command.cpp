#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/new_plugin.h"

namespace optrush {
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
}  // namespace optrush
