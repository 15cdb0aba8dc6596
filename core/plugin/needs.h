#pragma once
#include <string>
#include <vector>

#include "machine/python.h"

namespace optrush {
/// Capabilities of a machine for plugins. An empty reason: available.
struct MachineOffer {
  std::string no_cuda, no_python, no_compiler;  ///< why not
  int64_t compute_capability = 0;               ///< of the GPU, 90 for sm_90
};

/// Why this Python can't compile blocks for a CPU or a GPU; empty where it can.
std::string no_python(const PythonTools& python, bool for_gpu);
/// Why no C++ compiler can be started: that of CXX, else g++; empty where it can.
std::string no_compiler();

/// Words that "needs" of a plugin's description may hold: "cuda", "sm_90" (that or newer), "python" (with the
/// torch of this build), "compiler" (of C++, at run time).
std::vector<std::string> need_names();
/// Why a plugin with these needs can't run here; empty: it can.
std::string unmet_needs(const std::vector<std::string>& needs, const MachineOffer&);
}  // namespace optrush
