#pragma once
#include <c10/core/Device.h>

#include <string>

namespace optrush {
/// auto: the first GPU where one can be used, else the CPU. cuda without a usable GPU is a Skip that says
/// why.
at::Device open_device(const std::string& name);
std::string device_name(at::Device);
}  // namespace optrush
