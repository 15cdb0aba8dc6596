#pragma once
#include <filesystem>
#include <string>

#include "optrush/python.h"

namespace optrush {
/// What that Python offers; a version is empty where the package is missing.
struct PythonTools {
  std::filesystem::path path;
  std::string version, torch, vl_convert;
};
PythonTools find_python_tools();
}  // namespace optrush
