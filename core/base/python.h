#pragma once
#include <filesystem>
#include <string>

namespace optrush {
/// The Python of the project's environment: OPTRUSH_PYTHON if it is set, else the .venv of the source tree,
/// else the one that the LibTorch of this build belongs to. Empty where there is none.
std::filesystem::path project_python();

/// What that Python offers; a version is empty where the package is missing.
struct PythonTools {
  std::filesystem::path path;
  std::string version, torch, vl_convert;
};
PythonTools find_python_tools();
}  // namespace optrush
