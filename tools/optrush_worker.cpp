// optrush-worker: the process that trains. One run in one process; see `optrush-worker --help`.
#include "plugin_check/commands.h"
#include "worker/commands.h"

int main(int argc, char** argv) {
  return optrush::run_worker_command_line(argc, argv, {optrush::plugin_check::add_worker_commands});
}
