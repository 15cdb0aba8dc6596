#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace optrush {
/// Installs an allocator of CPU tensors that counts exact bytes and keeps freed memory in the process.
/// glibc's defaults return pages to the system and fault them in again in every step. Called once, before the
/// first tensor. With OPTRUSH_POISON=1, freed memory is filled with NaN.
void install_cpu_memory_tracking();
/// With OPTRUSH_POISON=1, each block that LibTorch's caching allocator of GPUs takes back is filled with NaN,
/// in the order of the block's stream. Work of another stream that still reads it then computes NaN.
void poison_freed_gpu_memory();
/// Present bytes of CPU tensors.
int64_t cpu_allocated();

struct MemoryPeak {
  /// On a GPU: LibTorch's `active_bytes`, in blocks. On a CPU: the bytes that tensors requested.
  int64_t allocated = 0;
  std::optional<int64_t> reserved;  ///< by a caching allocator
};
/// Present bytes of tensors on a device, as a peak counts them.
int64_t allocated_now(at::Device);
/// Sets the peak to the present use.
void reset_memory_peak(at::Device);
MemoryPeak memory_peak(at::Device);
/// Largest resident set of this process so far, in bytes.
int64_t peak_resident_bytes();
}  // namespace optrush
