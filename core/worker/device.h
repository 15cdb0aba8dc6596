#pragma once
#include <c10/core/Device.h>

#include <string>

namespace optrush {
/// auto: the GPU of this rank where one can be used, else the CPU. cuda without a usable GPU is a Skip that
/// says why.
at::Device open_device(const std::string& name, int64_t local_rank = 0);
std::string device_name(at::Device);
/// The host and the GPU's own number, by which ranks find out that they share one; "" of a CPU.
std::string gpu_identity(at::Device);
}  // namespace optrush
