// CUDA's driver interface: the functions that LibTorch, Triton, Inductor's code and this project call.
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>

#include "api.h"
#include "cubin.h"
#include "device_attributes.h"
#include "device_memory.h"
#include "driver_entry.h"
#include "settings.h"
#include "work.h"

using namespace fake_cuda;

namespace {
const CUcontext kContext = reinterpret_cast<CUcontext>(0xC0DE);

/// Errors of the driver have the runtime's numbers, but cudaGetLastError() does not return them.
CUresult result_of(cudaError_t error) {
  last_error = cudaSuccess;
  return static_cast<CUresult>(error);
}

struct Module {
  std::map<std::string, Kernel*> kernels;
  bool is_cubin = false;
};
std::map<CUmodule, std::unique_ptr<Module>>& modules() {
  static auto* const modules = new std::map<CUmodule, std::unique_ptr<Module>>;
  return *modules;
}
Kernel* kernel_of(CUfunction function) {
  return is_kernel(function) ? reinterpret_cast<Kernel*>(function) : nullptr;
}

struct Physical {  // memory of an expandable segment
  int device = 0;
  size_t bytes = 0;
};
}  // namespace

void* fake_cuda::driver_entry(const char* name) {
  static void* const self = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(&fake_cuda::driver_entry), &info);
    return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  for (const char* version : {"_v4", "_v3", "_v2", ""})
    if (void* function = dlsym(self, (std::string(name) + version).c_str())) return function;
  return nullptr;
}

FAKE_CUDA_API CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
FAKE_CUDA_API CUresult cuDriverGetVersion(int* version) { return result_of(cudaDriverGetVersion(version)); }
FAKE_CUDA_API CUresult cuDeviceGetCount(int* count) { return result_of(cudaGetDeviceCount(count)); }
FAKE_CUDA_API CUresult cuDeviceGet(CUdevice* device, int index) {
  *device = index;
  return index >= 0 && index < Settings::get().devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
FAKE_CUDA_API CUresult cuDeviceGetName(char* text, int room, CUdevice) {
  std::snprintf(text, static_cast<size_t>(room), "%s", kDeviceName);
  return CUDA_SUCCESS;
}
FAKE_CUDA_API CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  cudaDeviceProp properties{};
  const cudaError_t error = cudaGetDeviceProperties(&properties, device);
  std::memcpy(uuid->bytes, properties.uuid.bytes, sizeof uuid->bytes);
  return result_of(error);
}
FAKE_CUDA_API CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  *bytes = memory_info(device).total;
  return CUDA_SUCCESS;
}
FAKE_CUDA_API CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  *value = device_attribute(attribute);
  return CUDA_SUCCESS;
}
FAKE_CUDA_API CUresult cuMemGetInfo(size_t* free, size_t* total) {
  return result_of(cudaMemGetInfo(free, total));
}

FAKE_CUDA_API CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = kContext;
  return CUDA_SUCCESS;
}
FAKE_CUDA_API CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
FAKE_CUDA_API CUresult cuCtxPushCurrent(CUcontext) { return CUDA_SUCCESS; }
FAKE_CUDA_API CUresult cuCtxPopCurrent(CUcontext* context) {
  if (context) *context = kContext;
  return CUDA_SUCCESS;
}
FAKE_CUDA_API CUresult cuCtxGetDevice(CUdevice* device) {
  *device = present_device();
  return CUDA_SUCCESS;
}
FAKE_CUDA_API CUresult cuCtxSynchronize() { return result_of(cudaDeviceSynchronize()); }
FAKE_CUDA_API CUresult cuCtxSetLimit(CUlimit, size_t) { return CUDA_SUCCESS; }
FAKE_CUDA_API CUresult cuCtxGetLimit(size_t* value, CUlimit) {
  *value = 0;
  return CUDA_SUCCESS;
}
FAKE_CUDA_API CUresult cuCtxCreate(CUcontext* context, CUctxCreateParams*, unsigned, CUdevice) {
  *context = kContext;
  return CUDA_SUCCESS;
}
FAKE_CUDA_API CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  *context = kContext;
  return CUDA_SUCCESS;
}
FAKE_CUDA_API CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
FAKE_CUDA_API CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return CUDA_SUCCESS;
}
FAKE_CUDA_API CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = cudaGetErrorString(static_cast<cudaError_t>(error));
  return CUDA_SUCCESS;
}
FAKE_CUDA_API CUresult cuGetErrorName(CUresult error, const char** text) {
  *text = cudaGetErrorName(static_cast<cudaError_t>(error));
  return CUDA_SUCCESS;
}
FAKE_CUDA_API CUresult cuGetProcAddress(const char* name, void** function, int, cuuint64_t,
                                        CUdriverProcAddressQueryResult* result) {
  *function = driver_entry(name);
  if (result) *result = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
// Runtimes that are linked into other libraries ask for this first, and work without it.
FAKE_CUDA_API CUresult cuGetExportTable(const void**, const CUuuid*) { return CUDA_ERROR_NOT_FOUND; }

FAKE_CUDA_API CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  const Lock lock(mutex());
  auto module = std::make_unique<Module>();
  module->kernels = read_cubin(image);
  module->is_cubin = !module->kernels.empty();
  if (!module->is_cubin && std::memcmp(image,
                                       "\x7f"
                                       "ELF",
                                       4) == 0)
    return result_of(fault(cudaErrorInvalidKernelImage, "cuModuleLoadData",
                           "an ELF file that is no cubin, or has no kernel"));
  *out = reinterpret_cast<CUmodule>(module.get());
  modules()[*out] = std::move(module);
  return CUDA_SUCCESS;
}
FAKE_CUDA_API CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned, CUjit_option*, void**) {
  return cuModuleLoadData(out, image);
}
FAKE_CUDA_API CUresult cuModuleLoad(CUmodule* out, const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  const std::string image{std::istreambuf_iterator<char>(file), {}};
  return cuModuleLoadData(out, image.c_str());
}
FAKE_CUDA_API CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }  // graphs may still hold its kernels
FAKE_CUDA_API CUresult cuModuleGetFunction(CUfunction* out, CUmodule handle, const char* name) {
  const Lock lock(mutex());
  const auto module = modules().find(handle);
  if (module == modules().end())
    return result_of(fault(cudaErrorInvalidResourceHandle, "cuModuleGetFunction", "no such module"));
  Kernel*& kernel = module->second->kernels[name];
  if (!kernel) {
    if (module->second->is_cubin)
      return result_of(
          fault(cudaErrorSymbolNotFound, "cuModuleGetFunction", std::string("no kernel ") + name));
    kernel = new_kernel(name);  // PTX is not parsed
  }
  *out = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}
FAKE_CUDA_API CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset, size_t* bytes) {
  const Kernel* kernel = kernel_of(function);
  if (!kernel || index >= kernel->parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = kernel->parameters[index].offset;
  if (bytes) *bytes = kernel->parameters[index].bytes;
  return CUDA_SUCCESS;
}
FAKE_CUDA_API CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return result_of(cudaFuncSetAttribute(function, static_cast<cudaFuncAttribute>(attribute), value));
}
FAKE_CUDA_API CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  const Kernel* kernel = kernel_of(function);
  if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
  const Architecture& a = Settings::get().architecture;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = 32;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = kernel->max_threads;
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = kernel->static_shared;
      break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = a.major * 10 + a.minor;
      break;
    default:
      *value = 0;
  }
  return CUDA_SUCCESS;
}
FAKE_CUDA_API CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }
FAKE_CUDA_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function,
                                                                   int threads, size_t shared) {
  return result_of(cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared));
}
FAKE_CUDA_API CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction, const CUlaunchConfig*) {
  *clusters = 1;
  return CUDA_SUCCESS;
}
FAKE_CUDA_API CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                      CUstream stream, void** arguments, void** packed) {
  const Lock lock(mutex());
  return result_of(launch(kernel_of(function), {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared,
                          stream, packed ? nullptr : arguments, "cuLaunchKernel"));
}
FAKE_CUDA_API CUresult cuLaunchKernelEx(const CUlaunchConfig* c, CUfunction function, void** arguments,
                                        void** packed) {
  return cuLaunchKernel(function, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY,
                        c->blockDimZ, c->sharedMemBytes, c->hStream, arguments, packed);
}
FAKE_CUDA_API CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                                 unsigned grid_z, unsigned block_x, unsigned block_y,
                                                 unsigned block_z, unsigned shared, CUstream stream,
                                                 void** arguments) {
  return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream,
                        arguments, nullptr);
}
/// Checks descriptors of Hopper's tensor memory accelerator by the rules for tiles.
FAKE_CUDA_API CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t rank,
                                              void* address, const cuuint64_t* sizes,
                                              const cuuint64_t* strides, const cuuint32_t* box,
                                              const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                              CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  const auto refuse = [](const char* why) {
    return result_of(fault(cudaErrorInvalidValue, "cuTensorMapEncodeTiled", why));
  };
  if (reinterpret_cast<uint64_t>(address) % 16 != 0) return refuse("the address is not a multiple of 16");
  for (cuuint32_t i = 0; i + 1 < rank; ++i)
    if (strides[i] % 16 != 0) return refuse("a stride is not a multiple of 16 bytes");
  for (cuuint32_t i = 0; i < rank; ++i)
    if (sizes[i] == 0 || box[i] == 0 || box[i] > 256) return refuse("a size is 0, or a box is not 1 to 256");
  std::memset(map, 0, sizeof *map);
  return CUDA_SUCCESS;
}

FAKE_CUDA_API CUresult cuMemAlloc(CUdeviceptr* p, size_t bytes) {
  return result_of(cudaMalloc(reinterpret_cast<void**>(p), bytes));
}
FAKE_CUDA_API CUresult cuMemFree(CUdeviceptr p) { return result_of(cudaFree(reinterpret_cast<void*>(p))); }
FAKE_CUDA_API CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  return result_of(copy(reinterpret_cast<void*>(to), from, bytes, nullptr, "cuMemcpyHtoD"));
}
FAKE_CUDA_API CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  return result_of(copy(to, reinterpret_cast<void*>(from), bytes, nullptr, "cuMemcpyDtoH"));
}
FAKE_CUDA_API CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return result_of(fill(reinterpret_cast<void*>(to), value, 4, count, stream, "cuMemsetD32Async"));
}
FAKE_CUDA_API CUresult cuMemGetAddressRange(CUdeviceptr* begin, size_t* bytes, CUdeviceptr p) {
  if (device_of(p) < 0) return CUDA_ERROR_INVALID_VALUE;
  const Allocation whole = allocation_at(p);
  if (begin) *begin = whole.address;
  if (bytes) *bytes = whole.bytes;
  return CUDA_SUCCESS;
}
FAKE_CUDA_API CUresult cuPointerGetAttribute(void* out, CUpointer_attribute attribute, CUdeviceptr p) {
  if (device_of(p) < 0) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(out) = p;
      break;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(out) = kContext;
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(out) = allocation_at(p).address;
      break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<int*>(out) = CU_MEMORYTYPE_DEVICE;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(out) = device_of(p);
      break;
    default:
      *static_cast<int*>(out) = 0;
  }
  return CUDA_SUCCESS;
}

FAKE_CUDA_API CUresult cuMemAddressReserve(CUdeviceptr* p, size_t bytes, size_t, CUdeviceptr,
                                           unsigned long long) {
  const Lock lock(mutex());
  *p = reserve_addresses(present_device(), bytes);
  return *p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
FAKE_CUDA_API CUresult cuMemAddressFree(CUdeviceptr, size_t) { return CUDA_SUCCESS; }
FAKE_CUDA_API CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp*,
                                                     CUmemAllocationGranularity_flags) {
  *bytes = 2 << 20;
  return CUDA_SUCCESS;
}
FAKE_CUDA_API CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                                   const CUmemAllocationProp* properties, unsigned long long) {
  const Lock lock(mutex());
  const int device = properties ? properties->location.id : present_device();
  if (const cudaError_t bad = forbidden_in_capture("cuMemCreate"); bad != cudaSuccess) return result_of(bad);
  if (!take_bytes(device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = reinterpret_cast<CUmemGenericAllocationHandle>(new Physical{device, bytes});
  return CUDA_SUCCESS;
}
FAKE_CUDA_API CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const Lock lock(mutex());
  const std::unique_ptr<Physical> physical(reinterpret_cast<Physical*>(handle));
  give_bytes(physical->device, physical->bytes);
  return CUDA_SUCCESS;
}
FAKE_CUDA_API CUresult cuMemMap(CUdeviceptr p, size_t bytes, size_t, CUmemGenericAllocationHandle,
                                unsigned long long) {
  const Lock lock(mutex());
  map_range(p, bytes);
  return CUDA_SUCCESS;
}
FAKE_CUDA_API CUresult cuMemUnmap(CUdeviceptr p, size_t bytes) {
  const Lock lock(mutex());
  unmap_range(p, bytes);
  return CUDA_SUCCESS;
}
FAKE_CUDA_API CUresult cuMemSetAccess(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) {
  return CUDA_SUCCESS;
}
FAKE_CUDA_API CUresult cuMemExportToShareableHandle(void*, CUmemGenericAllocationHandle,
                                                    CUmemAllocationHandleType, unsigned long long) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
FAKE_CUDA_API CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle*, void*,
                                                      CUmemAllocationHandleType) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
FAKE_CUDA_API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle*, void*) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
FAKE_CUDA_API CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp*,
                                                              CUmemGenericAllocationHandle) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

FAKE_CUDA_API CUresult cuStreamSynchronize(CUstream stream) {
  return result_of(cudaStreamSynchronize(stream));
}
FAKE_CUDA_API CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr, cuuint32_t, unsigned) {
  return result_of(library_call("cuStreamWriteValue32", stream, {}));
}
FAKE_CUDA_API CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  cudaStreamCaptureStatus captured = cudaStreamCaptureStatusNone;
  const cudaError_t error = cudaStreamIsCapturing(stream, &captured);
  *status = static_cast<CUstreamCaptureStatus>(captured);
  return result_of(error);
}
FAKE_CUDA_API CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                              CUgraph*, const CUgraphNode**, const CUgraphEdgeData**,
                                              size_t*) {
  cudaStreamCaptureStatus captured = cudaStreamCaptureStatusNone;
  unsigned long long number = 0;
  const cudaError_t error =
      cudaStreamGetCaptureInfo(stream, &captured, &number, nullptr, nullptr, nullptr, nullptr);
  *status = static_cast<CUstreamCaptureStatus>(captured);
  if (id) *id = number;
  return result_of(error);
}
