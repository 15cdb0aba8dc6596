#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "machine/installation.h"
#include "machine/torch_folder.h"

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
}  // namespace

void add_sdk_command(CLI::App& app, int& code) {
  auto of_torch = std::make_shared<bool>(false);
  auto* command = app.add_subcommand("sdk", "print the CMAKE_PREFIX_PATH for building plugins");
  command->add_flag("--torch", *of_torch, "print the folder of the torch that plugins must use");
  command->callback([of_torch, &code] {
    std::cout << (*of_torch ? torch() : sdk_folder()).string() << std::endl;
    code = kOk;
  });
}
}  // namespace optrush
