#pragma once

namespace CLI {
class App;
}

namespace optrush::exchange {
/// Adds the commands `forward` and `weights` to optrush. They replace the process by optrush-worker.
void add_commands(CLI::App&, int& code);
/// Adds the commands `export`, `forward` and `weights` to optrush-worker.
void add_worker_commands(CLI::App&, int& code);
}  // namespace optrush::exchange
