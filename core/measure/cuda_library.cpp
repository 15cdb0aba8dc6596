#include "measure/cuda_library.h"

#include <ATen/Version.h>
#include <dlfcn.h>

#include <filesystem>

#include "build_info.h"
#ifdef OPTRUSH_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

namespace optrush {
namespace {
#ifdef OPTRUSH_HAS_CUDA
std::filesystem::path torch_library_folder() {
  Dl_info found{};
  dladdr(reinterpret_cast<void*>(&at::get_cpu_capability), &found);
  return std::filesystem::path(found.dli_fname).parent_path();
}

CudaSupport unavailable(std::string reason) { return {false, std::move(reason)}; }

CudaSupport open_cuda() {
  if (!dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL))
    return unavailable("no NVIDIA driver: libcuda.so.1 was not found");
  int devices = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&devices); status == cudaErrorInsufficientDriver)
    return unavailable(
        "the NVIDIA driver is too old for CUDA " OPTRUSH_CUDA_VERSION
        ": update it (580 or newer for CUDA 13), or build against a CUDA 12 LibTorch (OPTRUSH_TORCH)");
  else if (status != cudaSuccess)
    return unavailable(std::string("CUDA does not start: ") + cudaGetErrorString(status));
  if (devices == 0)
    return unavailable("the NVIDIA driver shows no GPU to this process (CUDA_VISIBLE_DEVICES?)");
  const auto library = torch_library_folder() / "libtorch_cuda.so";
  if (!dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL)) return unavailable(dlerror());
  return {true, ""};
}
#else
CudaSupport open_cuda() { return {false, "built against a LibTorch without CUDA (" OPTRUSH_TORCH_DIR ")"}; }
#endif
}  // namespace

const CudaSupport& load_cuda() {
  static const CudaSupport support = open_cuda();
  return support;
}
}  // namespace optrush
