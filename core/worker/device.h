#pragma once
#include <c10/core/Device.h>

#include <string>

namespace optrush {
/// "auto" is the GPU of this rank if it is usable, otherwise the CPU. Throws a Skip with the reason if "cuda"
/// is requested and no GPU is usable.
at::Device open_device(const std::string& name, int64_t local_rank = 0);
std::string device_name(at::Device);
/// Host name and UUID of the GPU, by which ranks notice that they share one; "" for a CPU.
std::string gpu_identity(at::Device);
}  // namespace optrush
