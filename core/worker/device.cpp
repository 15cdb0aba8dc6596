#include "worker/device.h"

#include "base/suggest.h"
#include "measure/cpu_info.h"
#include "measure/cuda_library.h"
#include "optrush/error.h"
#ifdef OPTRUSH_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

namespace optrush {
at::Device open_device(const std::string& name, int64_t local_rank) {
  if (name == "cpu") return at::kCPU;
  if (name != "auto" && name != "cuda")
    throw Error("unknown device '" + name + "'", did_you_mean(name, {"auto", "cpu", "cuda"}));
  if (const auto& cuda = load_cuda(); !cuda && name == "cuda")
    throw Skip("no GPU can be used: " + cuda.reason, "run with --device cpu, or see optrush doctor");
  else if (!cuda)
    return at::kCPU;
  const auto index = static_cast<at::DeviceIndex>(local_rank);
#ifdef OPTRUSH_HAS_CUDA
  int gpus = 0;
  cudaGetDeviceCount(&gpus);
  if (local_rank >= gpus)
    throw Skip("this machine has " + std::to_string(gpus) + (gpus == 1 ? " GPU" : " GPUs") +
                   ", and local rank " + std::to_string(local_rank) + " needs one of its own",
               "lower train.world_size, or run with --device cpu");
  cudaSetDevice(index);
#endif
  return {at::kCUDA, index};
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
