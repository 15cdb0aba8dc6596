// CUDA runtime: errors, devices, versions.
#include <cuda.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "api.h"
#include "device_attributes.h"
#include "device_memory.h"
#include "peers.h"
#include "settings.h"

using namespace fake_cuda;

namespace fake_cuda {
int device_attribute(int attribute) {
  const Architecture& a = Settings::get().architecture;
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      return a.major;
    case cudaDevAttrComputeCapabilityMinor:
      return a.minor;
    case cudaDevAttrMultiProcessorCount:
      return a.multiprocessors;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return a.shared_per_multiprocessor;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return a.shared_per_block;
    case cudaDevAttrL2CacheSize:
      return a.l2_bytes;
    case cudaDevAttrClusterLaunch:
      return a.major >= 9 ? 1 : 0;
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
      return 1024;
    case cudaDevAttrMaxBlockDimZ:
      return 64;
    case cudaDevAttrMaxGridDimX:
      return 2147483647;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      return 65535;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return 49152;
    case cudaDevAttrTotalConstantMemory:
      return 65536;
    case cudaDevAttrWarpSize:
      return 32;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      return 65536;
    case cudaDevAttrClockRate:
      return 1980000;
    case cudaDevAttrMemoryClockRate:
      return 2619000;
    case cudaDevAttrTextureAlignment:
    case cudaDevAttrSurfaceAlignment:
      return 512;
    case cudaDevAttrTexturePitchAlignment:
      return 32;
    case cudaDevAttrGlobalMemoryBusWidth:
      return 5120;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return 2048;
    case cudaDevAttrAsyncEngineCount:
      return 3;
    case cudaDevAttrReservedSharedMemoryPerBlock:
      return 1024;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return 32;
    case cudaDevAttrPciBusId:
      return 1;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrEccEnabled:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrGlobalL1CacheSupported:
    case cudaDevAttrLocalL1CacheSupported:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrComputePreemptionSupported:
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrMemoryPoolsSupported:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
      return 1;
    default:
      return 0;
  }
}
}  // namespace fake_cuda

FAKE_CUDA_API const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define FAKE_CUDA_NAME(name) \
  case name:                 \
    return #name
    FAKE_CUDA_NAME(cudaSuccess);
    FAKE_CUDA_NAME(cudaErrorInvalidValue);
    FAKE_CUDA_NAME(cudaErrorMemoryAllocation);
    FAKE_CUDA_NAME(cudaErrorInvalidConfiguration);
    FAKE_CUDA_NAME(cudaErrorInvalidDeviceFunction);
    FAKE_CUDA_NAME(cudaErrorInvalidDevice);
    FAKE_CUDA_NAME(cudaErrorInvalidKernelImage);
    FAKE_CUDA_NAME(cudaErrorInvalidSymbol);
    FAKE_CUDA_NAME(cudaErrorIllegalAddress);
    FAKE_CUDA_NAME(cudaErrorIllegalState);
    FAKE_CUDA_NAME(cudaErrorInvalidResourceHandle);
    FAKE_CUDA_NAME(cudaErrorNotReady);
    FAKE_CUDA_NAME(cudaErrorStreamCaptureUnsupported);
    FAKE_CUDA_NAME(cudaErrorStreamCaptureInvalidated);
    FAKE_CUDA_NAME(cudaErrorStreamCaptureMerge);
    FAKE_CUDA_NAME(cudaErrorStreamCaptureUnmatched);
    FAKE_CUDA_NAME(cudaErrorStreamCaptureUnjoined);
    FAKE_CUDA_NAME(cudaErrorStreamCaptureIsolation);
    FAKE_CUDA_NAME(cudaErrorStreamCaptureImplicit);
    FAKE_CUDA_NAME(cudaErrorStreamCaptureWrongThread);
    FAKE_CUDA_NAME(cudaErrorCapturedEvent);
    FAKE_CUDA_NAME(cudaErrorNotSupported);
    FAKE_CUDA_NAME(cudaErrorHostMemoryNotRegistered);
    FAKE_CUDA_NAME(cudaErrorSymbolNotFound);
    FAKE_CUDA_NAME(cudaErrorMissingConfiguration);
#undef FAKE_CUDA_NAME
    default:
      return "cudaErrorUnknown";
  }
}
FAKE_CUDA_API const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    default:
      return cudaGetErrorName(error);
  }
}
FAKE_CUDA_API cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
FAKE_CUDA_API cudaError_t cudaPeekAtLastError() { return last_error; }

FAKE_CUDA_API cudaError_t cudaGetDeviceCount(int* count) {
  *count = Settings::get().devices;
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaGetDevice(int* device) {
  *device = present_device();
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaSetDevice(int device) { return set_device(device); }
FAKE_CUDA_API cudaError_t cudaInitDevice(int, unsigned, unsigned) { return cudaSuccess; }
FAKE_CUDA_API cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }
FAKE_CUDA_API cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = device_attribute(attribute);
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaDeviceGetPCIBusId(char* text, int room, int device) {
  std::snprintf(text, static_cast<size_t>(room), "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }
FAKE_CUDA_API cudaError_t cudaDeviceSynchronize() {
  await([] { return unfinished_calls(clock_of_device()).empty(); });
  const Lock lock(mutex());
  return synchronize_device("cudaDeviceSynchronize");
}
FAKE_CUDA_API cudaError_t cudaProfilerStart() { return cudaSuccess; }
FAKE_CUDA_API cudaError_t cudaProfilerStop() { return cudaSuccess; }
FAKE_CUDA_API cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  if (device < 0 || device >= Settings::get().devices) return fail(cudaErrorInvalidDevice);
  const Architecture& a = Settings::get().architecture;
  std::memset(p, 0, sizeof *p);
  std::strcpy(p->name, kDeviceName);
  std::memcpy(p->uuid.bytes, "FAKE-CUDA-NO-GPU", 16);
  p->uuid.bytes[15] = static_cast<char>('0' + device);
  p->totalGlobalMem = Settings::get().memory_bytes;
  p->sharedMemPerBlock = 49152;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->warpSize = 32;
  p->memPitch = 2147483647;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 2147483647;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->totalConstMem = 65536;
  p->major = a.major;
  p->minor = a.minor;
  p->textureAlignment = 512;
  p->texturePitchAlignment = 32;
  p->multiProcessorCount = a.multiprocessors;
  p->canMapHostMemory = p->concurrentKernels = p->ECCEnabled = p->unifiedAddressing = 1;
  p->asyncEngineCount = 3;
  p->memoryBusWidth = 5120;
  p->l2CacheSize = a.l2_bytes;
  p->maxThreadsPerMultiProcessor = 2048;
  p->streamPrioritiesSupported = p->globalL1CacheSupported = p->localL1CacheSupported = p->managedMemory = 1;
  p->sharedMemPerMultiprocessor = static_cast<size_t>(a.shared_per_multiprocessor);
  p->sharedMemPerBlockOptin = static_cast<size_t>(a.shared_per_block);
  p->reservedSharedMemPerBlock = 1024;
  p->maxBlocksPerMultiProcessor = 32;
  p->cooperativeLaunch = p->hostRegisterSupported = p->memoryPoolsSupported = 1;
  p->clusterLaunch = a.major >= 9 ? 1 : 0;
  p->concurrentManagedAccess = p->computePreemptionSupported = p->canUseHostPointerForRegisteredMem = 1;
  p->pciBusID = device + 1;
  return cudaSuccess;
}
