#pragma once
#include <string>

namespace CLI {
class App;
}

namespace optrush {
/// Adds subcommands, which run during parsing and store the program's exit code in `code`.
using AddCommand = void (*)(CLI::App&, int& code);
/// Parses a command line, which runs its command. Prints the help or the version if that is asked for. Throws
/// a UsageError in the words of this program, with the nearest name for an unknown one.
void parse_command_line(CLI::App& app, int argc, char** argv);
/// A text for the user in which commands such as "optrush run" begin as the user types them: "./optrush run",
/// if the launcher of a clone started the program (OPTRUSH_COMMAND).
std::string as_typed(const std::string& text);
}  // namespace optrush
