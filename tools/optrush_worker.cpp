// optrush-worker: the process that trains. One run in one process; see `optrush-worker --help`.
#include "exchange/commands.h"
#include "plugin_check/commands.h"
#include "worker/commands.h"

int main(int argc, char** argv) {
  using namespace optrush;
  return run_worker_command_line(argc, argv,
                                 {exchange::add_worker_commands, plugin_check::add_worker_commands});
}
