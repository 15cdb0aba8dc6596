#pragma once
#include <string>

#include "optrush/gpu_kernel.h"

namespace optrush::fused {
/// Compute capability of the current GPU: 90 for "sm_90".
inline int compute_capability() {
  const std::string architecture = gpu_architecture();
  return std::stoi(architecture.substr(architecture.find('_') + 1));
}
}  // namespace optrush::fused
