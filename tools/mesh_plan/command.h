#pragma once

namespace CLI {
class App;
}

namespace optrush::mesh_plan {
/// The controller's `plan-mesh`. `code` is the program's exit code.
void add_command(CLI::App&, int& code);
}  // namespace optrush::mesh_plan
