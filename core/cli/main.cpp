// optrush, the controller: runs experiments and writes reports. Training happens in optrush-worker.
#include "cli/commands.h"
#include "mesh_plan/command.h"

int main(int argc, char** argv) {
  return optrush::run_command_line(argc, argv, {optrush::mesh_plan::add_command});
}
