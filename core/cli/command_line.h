#pragma once
#include <initializer_list>

namespace CLI {
class App;
}

namespace optrush {
/// Adds a subcommand that leaves the program's exit code.
using AddCommand = void (*)(CLI::App&, int& code);

/// The whole program, with the commands of tools beside its own: 0 all is well, 1 a run or something else
/// failed, 2 bad usage, 128 + N ended by signal N.
int run_command_line(int argc, char** argv, std::initializer_list<AddCommand> of_tools);
}  // namespace optrush
