#pragma once

namespace CLI {
class App;
}

namespace optrush::mesh_plan {
/// Adds the command `plan-mesh`. `code` gets the program's exit code.
void add_command(CLI::App&, int& code);
}  // namespace optrush::mesh_plan
