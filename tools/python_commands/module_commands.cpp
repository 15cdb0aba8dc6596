#include <CLI/CLI.hpp>
#include <cstdlib>

#include "cli/commands.h"
#include "machine/environment.h"
#include "machine/installation.h"
#include "machine/python.h"
#include "optrush/advanced/machine.h"
#include "python_commands/commands.h"

namespace optrush {
namespace {
/// Replaces this process by a module of our package, which runs experiments by this program.
[[noreturn]] void run_module(const std::string& module, const std::vector<std::string>& arguments) {
  const std::string python = project_python().string();
  if (python.empty())
    throw Error(ErrorCode::missing_requirement, "no Python was found, which this command needs",
                "run ./optrush setup, or set OPTRUSH_PYTHON");
  setenv("PYTHONPATH", path_with_our_package(environment_variable("PYTHONPATH")).c_str(), 1);
  setenv("OPTRUSH", (Installation::of_this_program().root / "bin/optrush").c_str(), 1);
  std::vector<std::string> words = {python, "-B", "-m", "optimization_rush." + module};
  words.insert(words.end(), arguments.begin(), arguments.end());
  become(words.front(), words, "set OPTRUSH_PYTHON to a Python");
}

void add_module(CLI::App& app, const std::string& name, const std::string& module,
                const std::string& summary) {
  auto* command = app.add_subcommand(name, summary);
  command->set_help_flag();
  command->prefix_command();
  command->callback([command, module] { run_module(module, command->remaining()); });
}
}  // namespace

void python_commands::add_modules(CLI::App& app, int& /*code*/) {
  add_module(app, "bisect", "bisect",
             "find the Python package that changed the speed of a program between two environments");
  add_module(app, "referee", "referee", "keep a change only if it is faster, correct and confirmed");
  add_module(app, "mcp", "mcp_server", "serve plugins, experiments and a referee to agents (MCP)");
}
}  // namespace optrush
