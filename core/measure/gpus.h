#pragma once
#include <string>
#include <vector>

#include "measure/nvml.h"

namespace optrush {
/// The GPUs that this process can use, in CUDA's order. Without CUDA: the GPUs that NVML lists.
std::vector<GpuInfo> visible_gpus(const Nvml*);
/// PCI address of a CUDA device, by which NVML identifies it; "" if there is none.
std::string cuda_bus_id(int index);
/// Bytes of the last-level cache of a CUDA device; 0: none.
int64_t cuda_cache_bytes(int index);
}  // namespace optrush
