#pragma once
#include <string>
#include <vector>

#include "measure/nvml.h"

namespace optrush {
/// The GPUs that this process computes on, in CUDA's order. Where CUDA can't be used: those that NVML lists.
std::vector<GpuInfo> visible_gpus(const Nvml*);
/// PCI address of a CUDA device, by which NVML knows it; "" where there is none.
std::string cuda_bus_id(int index);
/// Last-level cache of a CUDA device, bytes; 0: none.
int64_t cuda_cache_bytes(int index);
}  // namespace optrush
