#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "machine/python.h"

namespace optrush {
/// The capabilities of a machine for plugins. An empty reason means that the capability exists.
struct MachineOffer {
  std::string no_cuda, no_python, no_compiler;  ///< why it does not exist
  int64_t compute_capability = 0;               ///< compute capability of the GPU, 90 for sm_90
};

/// The reason why this Python can't compile blocks for a CPU or a GPU; "" if it can.
std::string no_python(const PythonTools& python, bool for_gpu);
/// Whether `program` can be started: a path (relative to `folder`), or a name that is searched in PATH.
bool can_execute(const std::string& program, const std::filesystem::path& folder = {});
/// The reason why no C++ compiler (CXX, otherwise g++) can be started; "" if one can.
std::string no_compiler();

/// The allowed values of "needs" in a description: "cuda", "sm_90" (this or newer), "python" (with the torch
/// of this build), "compiler" (C++, at run time).
std::vector<std::string> need_names();
/// The reason why a plugin with these needs can't run here; "" if it can.
std::string unmet_needs(const std::vector<std::string>& needs, const MachineOffer&);
}  // namespace optrush
