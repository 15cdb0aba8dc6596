#pragma once
#include <string>

#include "kernel_parts/type.h"
#include "optrush/gpu_kernel.h"

/// For tests that compile without a GPU.
namespace optrush::nf4::gpu {
const GpuProgram& program();
std::string decode_name(fused::Type, bool packed);
}  // namespace optrush::nf4::gpu
