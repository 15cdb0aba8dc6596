#pragma once

namespace CLI {
class App;
}

namespace optrush::python_commands {
// Commands that replace the process by Python.
/// Adds the command `tokenize`.
void add_tokenize(CLI::App&, int& code);
/// Adds the commands `bisect`, `referee` and `mcp`.
void add_modules(CLI::App&, int& code);
}  // namespace optrush::python_commands
