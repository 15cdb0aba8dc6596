#include <CLI/CLI.hpp>
#include <cstdlib>

#include "cli/commands.h"
#include "machine/environment.h"
#include "machine/installation.h"
#include "machine/python.h"
#include "optrush/machine.h"

namespace optrush {
namespace {
/// Replaces this process by the module optimization_rush.bisect, which runs experiments by this program.
[[noreturn]] void bisect(const std::vector<std::string>& arguments) {
  const std::string python = project_python().string();
  if (python.empty())
    throw Error(ErrorCode::missing_requirement, "no Python was found; bisect makes environments of Python",
                "run ./optrush setup, or set OPTRUSH_PYTHON");
  setenv("PYTHONPATH", path_with_our_package(environment_variable("PYTHONPATH")).c_str(), 1);
  setenv("OPTRUSH", (Installation::of_this_program().root / "bin/optrush").c_str(), 1);
  std::vector<std::string> words = {python, "-B", "-m", "optimization_rush.bisect"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  become(words, "set OPTRUSH_PYTHON to a Python");
}
}  // namespace

void add_bisect_command(CLI::App& app, int&) {
  auto* command = app.add_subcommand(
      "bisect", "find the Python package that changed the speed of a program between two environments");
  command->set_help_flag();
  command->prefix_command();
  command->callback([command] { bisect(command->remaining()); });
}
}  // namespace optrush
