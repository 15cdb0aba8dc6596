#include "measure/cuda_library.h"

#include <dlfcn.h>

#include "build_info.h"
#include "machine/torch_folder.h"
#ifdef OPTRUSH_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

namespace optrush {
namespace {
#ifdef OPTRUSH_HAS_CUDA
std::string too_old_driver() {
  int version = 0;  // for example 12040 for 12.4
  cudaDriverGetVersion(&version);
  const std::string has = version > 0 ? ": it has CUDA " + std::to_string(version / 1000) + "." +
                                            std::to_string(version % 1000 / 10)
                                      : "";
  return "the NVIDIA driver is too old for CUDA " OPTRUSH_CUDA_VERSION + has +
         ". Update it (580 or newer for CUDA 13), on a data-centre GPU install NVIDIA's cuda-compat package, "
         "or "
         "build against a CUDA 12 LibTorch (OPTRUSH_TORCH)";
}

CudaSupport unavailable(std::string reason) { return {false, std::move(reason)}; }

CudaSupport open_cuda() {
  if (!dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL))
    return unavailable("no NVIDIA driver: libcuda.so.1 was not found");
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaErrorInsufficientDriver) return unavailable(too_old_driver());
  if (status != cudaSuccess)
    return unavailable(std::string("CUDA failed to start: ") + cudaGetErrorString(status));
  if (devices == 0)
    return unavailable("the NVIDIA driver shows no GPU to this process (CUDA_VISIBLE_DEVICES?)");
  const auto library = torch_folder() / "lib" / "libtorch_cuda.so";
  if (!dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL)) return unavailable(dlerror());
  return {true, ""};
}
#else
CudaSupport open_cuda() { return {false, "built against a LibTorch without CUDA"}; }
#endif
}  // namespace

const CudaSupport& load_cuda() {
  static const CudaSupport support = open_cuda();
  return support;
}
}  // namespace optrush
