#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace optrush {
/// A plugin's name is its library's file name, its CMake target and what scripts call it: an Error tells the
/// rule.
void check_plugin_name(const std::string& name);

/// The kind of example for a new plugin.
enum class NewPlugin : uint8_t {
  wrap,       ///< of an operation
  kernel,     ///< a GPU kernel beside a form for CPUs
  optimizer,  ///< in the place of AdamW
};

/// Writes a plugin that builds against the installed SDK, with a test: CMakeLists.txt, src/, test/,
/// README.md. An Error where `folder` exists already.
void write_new_plugin(const std::string& name, const std::filesystem::path& folder,
                      NewPlugin example = NewPlugin::wrap);
}  // namespace optrush
