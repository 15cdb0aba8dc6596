#include "worker/device.h"

#include "base/suggest.h"
#include "measure/cpu_info.h"
#include "measure/cuda_library.h"
#include "optrush/error.h"
#ifdef OPTRUSH_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

namespace optrush {
at::Device open_device(const std::string& name) {
  if (name == "cpu") return at::kCPU;
  if (name != "auto" && name != "cuda")
    throw Error("unknown device '" + name + "'", did_you_mean(name, {"auto", "cpu", "cuda"}));
  if (const auto& cuda = load_cuda(); !cuda && name == "cuda")
    throw Skip("no GPU can be used: " + cuda.reason, "run with --device cpu, or see optrush doctor");
  else if (!cuda)
    return at::kCPU;
  return {at::kCUDA, 0};
}

std::string device_name(at::Device device) {
#ifdef OPTRUSH_HAS_CUDA
  if (device.is_cuda()) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, device.index()) == cudaSuccess) return properties.name;
  }
#endif
  return read_cpu().name;
}
}  // namespace optrush
