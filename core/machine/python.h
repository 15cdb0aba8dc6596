#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "optrush/advanced/machine.h"

namespace optrush {
/// Properties of a Python; a version is empty if the package is missing.
struct PythonTools {
  std::filesystem::path path;
  std::string version, torch, vl_convert;
  bool headers = false;  ///< whether Python.h exists, which compiling for a GPU requires
};
PythonTools find_python_tools();

/// The packages in a requirements file that this Python lacks or has in an unsuitable version:
/// "transformers>=4.57 (4.30.0 is installed)". Imports nothing.
std::vector<std::string> missing_packages(const std::filesystem::path& python,
                                          const std::filesystem::path& requirements);

/// A value for PYTHONPATH with the package optimization_rush before `own`.
std::string path_with_our_package(const std::string& own);

/// A word of a command line, in quotes if the shell needs them.
std::string shell_word(const std::string&);

/// The path of a Python and of the torch that it would import; empty if it does not start or has no torch.
struct TorchOfPython {
  std::filesystem::path python, torch;
};
TorchOfPython torch_of_python(const std::filesystem::path& python);
}  // namespace optrush
