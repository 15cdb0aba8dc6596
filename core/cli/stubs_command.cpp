#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "script/stubs.h"

namespace optrush {
void add_stubs_command(CLI::App& app, int& code) {
  auto folders = std::make_shared<std::vector<std::string>>();
  auto* command =
      app.add_subcommand("stubs", "print the Lua library's editor stubs, with the plugins' options");
  command->add_option("--plugin-path", *folders, "search this folder for plugins first; may be repeated")
      ->check(CLI::ExistingDirectory)
      ->take_all()
      ->expected(1)
      ->type_name("FOLDER");
  command->callback([folders, &code] {
    std::cout << lua_stubs(Catalogue::find(*folders).plugins()) << std::flush;
    code = kOk;
  });
}
}  // namespace optrush
