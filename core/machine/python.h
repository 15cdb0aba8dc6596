#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "optrush/machine.h"

namespace optrush {
/// Properties of that Python; a version is empty if the package is missing.
struct PythonTools {
  std::filesystem::path path;
  std::string version, torch, vl_convert;
  bool headers = false;  ///< Python.h is there, which compiling for a GPU takes
};
PythonTools find_python_tools();

/// Those of a file in the form of pip's requirements that this Python lacks, or has in a version that does
/// not fit: "transformers>=4.57 (4.30.0 is installed)". Nothing is imported.
std::vector<std::string> missing_packages(const std::filesystem::path& python,
                                          const std::filesystem::path& requirements);

/// Where a Python lies and what it would import as torch; empty where it does not start or has none.
struct TorchOfPython {
  std::filesystem::path python, torch;
};
TorchOfPython torch_of_python(const std::filesystem::path& python);
}  // namespace optrush
