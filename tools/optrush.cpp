// optrush, the controller: runs experiments and writes reports. Training happens in optrush-worker.
#include "authoring/commands.h"
#include "cli/commands.h"
#include "exchange/commands.h"
#include "mesh_plan/command.h"
#include "plugin_check/commands.h"
#include "python_commands/commands.h"

int main(int argc, char** argv) {
  using namespace optrush;
  return run_command_line(argc, argv,
                          {authoring::add_experiments, plugin_check::add_command, mesh_plan::add_command,
                           authoring::add_plugins, authoring::add_commands, python_commands::add_tokenize,
                           python_commands::add_modules, exchange::add_commands});
}
