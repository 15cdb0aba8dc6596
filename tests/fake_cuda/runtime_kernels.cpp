// CUDA runtime: kernels that are linked into a program.
#include <cuda.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "api.h"
#include "driver_entry.h"
#include "settings.h"
#include "work.h"

using namespace fake_cuda;

namespace {
std::map<const void*, Kernel*>& linked() {
  static auto* const kernels = new std::map<const void*, Kernel*>;
  return *kernels;
}
/// The kernel of a host stub, or of a handle from this library.
Kernel* kernel_of(const void* handle) {
  if (const auto it = linked().find(handle); it != linked().end()) return it->second;
  return is_kernel(handle) ? static_cast<Kernel*>(const_cast<void*>(handle)) : nullptr;
}

struct Configuration {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
};
thread_local std::vector<Configuration> configurations;
}  // namespace

FAKE_CUDA_API void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
FAKE_CUDA_API void __cudaRegisterFatBinaryEnd(void**) {}
FAKE_CUDA_API void __cudaUnregisterFatBinary(void**) {}
FAKE_CUDA_API char __cudaInitModule(void**) { return 1; }
FAKE_CUDA_API void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int threads,
                                          uint3*, uint3*, dim3*, dim3*, int*) {
  const Lock lock(mutex());
  Kernel* kernel = new_kernel(name);
  if (threads > 0) kernel->max_threads = threads;
  linked()[host] = kernel;
}
FAKE_CUDA_API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
  configurations.push_back({grid, block, shared, static_cast<cudaStream_t>(stream)});
  return 0;
}
FAKE_CUDA_API cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (configurations.empty())
    return fault(cudaErrorMissingConfiguration, "__cudaPopCallConfiguration", "a launch without a shape");
  const Configuration c = configurations.back();
  configurations.pop_back();
  *grid = c.grid;
  *block = c.block;
  *shared = c.shared;
  *static_cast<cudaStream_t*>(stream) = c.stream;
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t __cudaGetKernel(cudaKernel_t* out, const void* function) {
  const Lock lock(mutex());
  *out = reinterpret_cast<cudaKernel_t>(kernel_of(function));
  return *out ? cudaSuccess : fault(cudaErrorInvalidDeviceFunction, "cudaGetKernel", "no such kernel");
}
FAKE_CUDA_API cudaError_t cudaGetKernel(cudaKernel_t* out, const void* function) {
  return __cudaGetKernel(out, function);
}
FAKE_CUDA_API cudaError_t cudaGetFuncBySymbol(cudaFunction_t* out, const void* function) {
  return __cudaGetKernel(reinterpret_cast<cudaKernel_t*>(out), function);
}
FAKE_CUDA_API cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                           size_t shared, cudaStream_t stream) {
  const Lock lock(mutex());
  return launch(kernel_of(function), grid, block, shared, stream, arguments, "cudaLaunchKernel");
}
FAKE_CUDA_API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                             size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, arguments, shared, stream);
}
FAKE_CUDA_API cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block,
                                                      void** arguments, size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(function, grid, block, arguments, shared, stream);
}
FAKE_CUDA_API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* function,
                                              void** arguments) {
  return cudaLaunchKernel(function, c->gridDim, c->blockDim, arguments, c->dynamicSmemBytes, c->stream);
}
FAKE_CUDA_API cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  const Lock lock(mutex());
  Kernel* kernel = kernel_of(function);
  if (!kernel) return fault(cudaErrorInvalidDeviceFunction, "cudaFuncSetAttribute", "no such kernel");
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value > Settings::get().architecture.shared_per_block)
    return fail(cudaErrorInvalidValue);  // an error, not a fault
  kernel->dynamic_shared = value;
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }
FAKE_CUDA_API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, const void* function) {
  const Lock lock(mutex());
  const Kernel* kernel = kernel_of(function);
  if (!kernel) return fault(cudaErrorInvalidDeviceFunction, "cudaFuncGetAttributes", "no such kernel");
  const Architecture& architecture = Settings::get().architecture;
  std::memset(a, 0, sizeof *a);
  a->maxThreadsPerBlock = kernel->max_threads;
  a->numRegs = 32;
  a->ptxVersion = a->binaryVersion = architecture.major * 10 + architecture.minor;
  a->sharedSizeBytes = static_cast<size_t>(kernel->static_shared);
  a->maxDynamicSharedSizeBytes = kernel->dynamic_shared ? kernel->dynamic_shared : 49152;
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*,
                                                                                 int threads, size_t shared,
                                                                                 unsigned) {
  const auto room = static_cast<size_t>(Settings::get().architecture.shared_per_multiprocessor);
  *blocks = threads > 0 ? std::min(32, 2048 / threads) : 0;
  if (shared > 0) *blocks = std::min(*blocks, static_cast<int>(room / (shared + 1024)));
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                                        int threads, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
}
FAKE_CUDA_API cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                                           unsigned long long,
                                                           cudaDriverEntryPointQueryResult* result) {
  *function = driver_entry(name);
  if (result) *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;  // a missing name is no error: the result reports it
}
