#pragma once

namespace CLI {
class App;
}

namespace optrush::authoring {
/// Adds the command `experiments`, which lists the shipped ones.
void add_experiments(CLI::App&, int& code);
/// Adds the command `plugins`, which lists and describes plugins.
void add_plugins(CLI::App&, int& code);
/// Adds the commands `new-plugin`, `sdk` and `stubs`, for authors of plugins and scripts.
void add_commands(CLI::App&, int& code);
}  // namespace optrush::authoring
