#pragma once

namespace CLI {
class App;
}

namespace optrush::plugin_check {
/// Adds the command `check` to optrush. `code` gets the program's exit code.
void add_command(CLI::App&, int& code);
/// Adds the commands `check-list` and `check-run`, which `check` starts, to optrush-worker.
void add_worker_commands(CLI::App&, int& code);
}  // namespace optrush::plugin_check
