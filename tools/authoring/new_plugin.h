#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace optrush {
/// "wide_swiglu" becomes "WideSwiglu".
std::string camel_case(std::string_view name);
/// Checks the name of a plugin, which is also the name of its library, its CMake target and its name in
/// scripts. An Error states the rule.
void check_plugin_name(const std::string& name);

/// The kind of example for a new plugin.
enum class NewPlugin : uint8_t {
  wrap,       ///< wraps an operator
  kernel,     ///< a GPU kernel and a version for CPUs
  optimizer,  ///< replaces AdamW
};

/// Writes a plugin that builds against the installed SDK, with a test: CMakeLists.txt, src/, test/,
/// README.md. Throws an Error if `folder` exists.
void write_new_plugin(const std::string& name, const std::filesystem::path& folder,
                      NewPlugin example = NewPlugin::wrap);
}  // namespace optrush
