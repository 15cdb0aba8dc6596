#pragma once

namespace CLI {
class App;
}

namespace optrush {
/// Adds subcommands, which run during parsing and store the program's exit code in `code`.
using AddCommand = void (*)(CLI::App&, int& code);
/// Parses a command line, which runs its command. Prints the help or the version if that is asked for. Throws
/// a UsageError in the words of this program, with the nearest name for an unknown one.
void parse_command_line(CLI::App& app, int argc, char** argv);
}  // namespace optrush
