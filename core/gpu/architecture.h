#pragma once
#include <string>

namespace optrush {
/// The architecture of the current device, "sm_90". Throws an Error without a GPU.
std::string current_architecture();
}  // namespace optrush
