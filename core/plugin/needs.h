#pragma once
#include <string>
#include <vector>

namespace optrush {
/// What a machine offers to plugins. An empty reason: it is there.
struct MachineOffer {
  std::string no_cuda, no_python, no_compiler;  ///< why not
  int64_t compute_capability = 0;               ///< of the GPU, 90 for sm_90
};

/// Words that "needs" of a plugin's description may hold: "cuda", "sm_90" (that or newer), "python" (with the
/// torch of this build), "compiler" (of C++, at run time).
std::vector<std::string> need_names();
/// Why a plugin with these needs can't run here; empty: it can.
std::string unmet_needs(const std::vector<std::string>& needs, const MachineOffer&);
}  // namespace optrush
