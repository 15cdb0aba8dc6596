#pragma once
#include <map>
#include <string>

namespace fake_cuda {
struct Kernel;
/// The kernels of a cubin by symbol, with parameters (EIATTR_KPARAM_INFO), limit of threads and static shared
/// memory. Empty: the image is no cubin.
std::map<std::string, Kernel*> read_cubin(const void* image);
}  // namespace fake_cuda
