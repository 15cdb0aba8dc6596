#pragma once
#include <filesystem>
#include <string>

namespace optrush {
/// A plugin's name is its library's file name, its CMake target and what scripts call it: an Error tells the
/// rule.
void check_plugin_name(const std::string& name);

/// Writes a plugin that builds against the installed SDK, with a test: CMakeLists.txt, src/, test/,
/// README.md. `kernel`: one with a GPU kernel beside a form for CPUs. An Error where `folder` exists already.
void write_new_plugin(const std::string& name, const std::filesystem::path& folder, bool kernel = false);
}  // namespace optrush
