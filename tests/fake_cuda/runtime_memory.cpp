// CUDA runtime: memory, copies, symbols.
#include <cstring>
#include <map>

#include "api.h"
#include "device_memory.h"
#include "peers.h"
#include "work.h"

using namespace fake_cuda;

namespace {
struct Variable {
  uint64_t address = 0;
  size_t bytes = 0;
};
std::map<const void*, Variable>& variables() {
  static auto* const variables = new std::map<const void*, Variable>;
  return *variables;
}
}  // namespace

FAKE_CUDA_API cudaError_t cudaMalloc(void** p, size_t bytes) {
  const Lock lock(mutex());
  *p = nullptr;
  if (const cudaError_t bad = forbidden_in_capture("cudaMalloc"); bad != cudaSuccess) return bad;
  if (bytes == 0) return cudaSuccess;
  const uint64_t address = allocate(present_device(), bytes);
  if (address == 0) return fail(cudaErrorMemoryAllocation);
  *p = reinterpret_cast<void*>(address);
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaFree(void* p) {
  const Lock lock(mutex());
  if (!p) return cudaSuccess;
  if (const cudaError_t bad = forbidden_in_capture("cudaFree"); bad != cudaSuccess) return bad;
  return release(reinterpret_cast<uint64_t>(p))
             ? cudaSuccess
             : fault(cudaErrorInvalidValue, "cudaFree", "not an allocation, or freed already");
}
FAKE_CUDA_API cudaError_t cudaMallocAsync(void** p, size_t bytes, cudaStream_t) {
  return cudaMalloc(p, bytes);
}
FAKE_CUDA_API cudaError_t cudaFreeAsync(void* p, cudaStream_t) { return cudaFree(p); }
FAKE_CUDA_API cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const MemoryInfo info = memory_info(present_device());
  *free = info.free;
  *total = info.total;
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaHostAlloc(void** p, size_t bytes, unsigned) {
  const Lock lock(mutex());
  if (const cudaError_t bad = forbidden_in_capture("cudaHostAlloc"); bad != cudaSuccess) return bad;
  *p = allocate_pinned(bytes);
  return *p ? cudaSuccess : fail(cudaErrorMemoryAllocation);
}
FAKE_CUDA_API cudaError_t cudaMallocHost(void** p, size_t bytes) { return cudaHostAlloc(p, bytes, 0); }
FAKE_CUDA_API cudaError_t cudaFreeHost(void* p) {
  return !p || release_pinned(p) ? cudaSuccess
                                 : fault(cudaErrorInvalidValue, "cudaFreeHost", "not page-locked memory");
}
FAKE_CUDA_API cudaError_t cudaHostRegister(void* p, size_t bytes, unsigned) {
  register_pinned(p, bytes);
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaHostUnregister(void* p) {
  return unregister_pinned(p)
             ? cudaSuccess
             : fault(cudaErrorHostMemoryNotRegistered, "cudaHostUnregister", "not registered memory");
}
FAKE_CUDA_API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* a, const void* p) {
  std::memset(a, 0, sizeof *a);
  auto* address = const_cast<void*>(p);
  if (const int device = device_of(p); device >= 0) {
    a->type = cudaMemoryTypeDevice;
    a->device = device;
    a->devicePointer = address;
  } else if (is_pinned(p)) {
    a->type = cudaMemoryTypeHost;
    a->hostPointer = a->devicePointer = address;
  } else {
    a->type = cudaMemoryTypeUnregistered;
    a->device = cudaInvalidDeviceId;
    a->hostPointer = address;
  }
  return cudaSuccess;
}

FAKE_CUDA_API cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                                          cudaStream_t stream) {
  if (device_of(from) >= 0 && device_of(to) < 0 && !is_pinned(to)) await_peers(stream);  // as the driver does
  return copy(to, from, bytes, stream, "cudaMemcpyAsync");
}
FAKE_CUDA_API cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  await_peers(nullptr);
  const Lock lock(mutex());
  if (const cudaError_t bad = copy(to, from, bytes, nullptr, "cudaMemcpy"); bad != cudaSuccess) return bad;
  return synchronize(stream_of(nullptr), "cudaMemcpy");
}
FAKE_CUDA_API cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes,
                                              cudaStream_t stream) {
  return copy(to, from, bytes, stream, "cudaMemcpyPeerAsync");
}
FAKE_CUDA_API cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                            size_t width, size_t height, cudaMemcpyKind,
                                            cudaStream_t stream) {
  for (size_t row = 0; row < height; ++row) {
    const cudaError_t bad =
        copy(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch,
             width, stream, "cudaMemcpy2DAsync");
    if (bad != cudaSuccess) return bad;
  }
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return fill(to, static_cast<uint32_t>(value & 255) * 0x01010101U, 1, bytes, stream, "cudaMemsetAsync");
}
FAKE_CUDA_API cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return cudaMemsetAsync(to, value, bytes, nullptr);
}

FAKE_CUDA_API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  *pool = reinterpret_cast<cudaMemPool_t>(static_cast<uint64_t>(device) + 1);
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr, void* value) {
  std::memset(value, 0, sizeof(uint64_t));
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc*, size_t) {
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }
FAKE_CUDA_API cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t*, void*) {
  return fail(cudaErrorNotSupported);
}
FAKE_CUDA_API cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t*, cudaEvent_t) {
  return fail(cudaErrorNotSupported);
}

FAKE_CUDA_API void __cudaRegisterVar(void**, char* host, char*, const char*, int, size_t bytes, int, int) {
  const Lock lock(mutex());
  variables()[host] = {0, bytes};
}
FAKE_CUDA_API cudaError_t cudaGetSymbolAddress(void** p, const void* symbol) {
  const Lock lock(mutex());
  const auto it = variables().find(symbol);
  if (it == variables().end())
    return fault(cudaErrorInvalidSymbol, "cudaGetSymbolAddress", "no such variable");
  if (it->second.address == 0) it->second.address = allocate(present_device(), it->second.bytes);
  *p = reinterpret_cast<void*>(it->second.address);
  return cudaSuccess;
}
FAKE_CUDA_API cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes,
                                             size_t offset, cudaMemcpyKind kind) {
  void* p = nullptr;
  if (const cudaError_t bad = cudaGetSymbolAddress(&p, symbol); bad != cudaSuccess) return bad;
  return cudaMemcpy(static_cast<char*>(p) + offset, from, bytes, kind);
}
