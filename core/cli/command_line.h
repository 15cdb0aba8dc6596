#pragma once
#include <initializer_list>

namespace CLI {
class App;
}

namespace optrush {
/// Adds a subcommand that stores the program's exit code in `code`.
using AddCommand = void (*)(CLI::App&, int& code);

/// The whole program with the additional commands of tools. Exit codes: 0 success, 1 a run or something else
/// failed, 2 wrong usage, 128 + N ended by signal N.
int run_command_line(int argc, char** argv, std::initializer_list<AddCommand> of_tools);
}  // namespace optrush
