// Work for a device. It is checked as a GPU or its driver does, counted, and not executed.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fake_cuda {
struct Graph;
struct Stream;

struct Kernel {
  std::string symbol;
  int max_threads = 1024;
  int static_shared = 0;   ///< bytes
  int dynamic_shared = 0;  ///< largest bytes, as set by cudaFuncSetAttribute
  bool parameters_known = false;
  struct Parameter {
    size_t offset = 0, bytes = 0;
  };
  std::vector<Parameter> parameters;  ///< for kernels from a cubin
};
Kernel* new_kernel(const std::string& symbol);
bool is_kernel(const void* handle);
const std::string& name_of(const Kernel& kernel);  ///< demangled

cudaError_t copy(void* to, const void* from, size_t bytes, cudaStream_t stream, const char* where);
/// `count` values of `width` bytes each.
cudaError_t fill(void* to, uint32_t value, size_t width, size_t count, cudaStream_t stream,
                 const char* where);
cudaError_t launch(Kernel* kernel, dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
                   void** arguments, const char* where);
/// Memory that a call writes.
struct Written {
  uint64_t address = 0;
  size_t bytes = 0;
};
/// A call of cuBLAS, cuDNN or NCCL, with the memory that it uses. Without `written` it may write anywhere.
cudaError_t library_call(const std::string& what, cudaStream_t stream, const std::vector<const void*>& memory,
                         const std::optional<Written>& written = {});
void replay(const Graph& graph, Stream& stream);

/// Pinned host memory. A copy from other host memory waits and cannot be captured.
void* allocate_pinned(size_t bytes);
bool release_pinned(void* p);
void register_pinned(void* p, size_t bytes);
bool unregister_pinned(void* p);
bool is_pinned(const void* p);
}  // namespace fake_cuda
