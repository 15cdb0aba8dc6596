#include <CLI/CLI.hpp>
#include <cstdlib>

#include "cli/commands.h"
#include "machine/environment.h"
#include "machine/installation.h"
#include "optrush/machine.h"

namespace optrush {
namespace {
/// Replaces this process by the module optimization_rush.bisect, which runs experiments by this program.
[[noreturn]] void bisect(const std::vector<std::string>& arguments) {
  const std::string python = project_python().string();
  if (python.empty())
    throw Error(ErrorCode::missing_requirement, "no Python was found; bisect makes environments of Python",
                "run ./optrush setup, or set OPTRUSH_PYTHON");
  const Installation here = Installation::of_this_program();
  const std::string own = environment_variable("PYTHONPATH");
  setenv("PYTHONPATH", ((here.scripts / "python").string() + (own.empty() ? "" : ":" + own)).c_str(), 1);
  setenv("OPTRUSH", (here.root / "bin/optrush").c_str(), 1);
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
