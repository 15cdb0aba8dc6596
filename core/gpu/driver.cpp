#include "gpu/driver.h"

#include <dlfcn.h>

#include "optrush/error.h"

namespace optrush {
namespace {
CudaDriver open_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw Error(ErrorCode::missing_requirement, "no NVIDIA driver: libcuda.so.1 was not found",
                "GPU kernels need a machine with an NVIDIA GPU");
  CudaDriver d;
  const auto find = [&]<class F>(F*& function, const char* symbol) {
    function = reinterpret_cast<F*>(dlsym(library, symbol));
    return function != nullptr;
  };
  find(d.argument, "cuFuncGetParamInfo");
  if (!find(d.error_string, "cuGetErrorString") || !find(d.current_context, "cuCtxGetCurrent") ||
      !find(d.load, "cuModuleLoadData") || !find(d.function, "cuModuleGetFunction") ||
      !find(d.set_attribute, "cuFuncSetAttribute") ||
      !find(d.occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor") || !find(d.launch, "cuLaunchKernel"))
    throw Error(ErrorCode::missing_requirement,
                "libcuda.so.1 lacks functions that every driver since CUDA 9 has",
                "reinstall the NVIDIA driver");
  return d;
}
}  // namespace

const CudaDriver& CudaDriver::open() {
  static const CudaDriver driver = open_driver();
  return driver;
}

void CudaDriver::check(Result result, const std::string& what) const {
  if (result == 0) return;
  const char* text = nullptr;
  error_string(result, &text);
  throw Error(ErrorCode::internal,
              what + ": " + (text != nullptr ? text : "CUDA error " + std::to_string(result)));
}
}  // namespace optrush
