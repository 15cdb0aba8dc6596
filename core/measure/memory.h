#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace optrush {
/// Installs an allocator of CPU tensors that counts exact bytes and keeps freed memory in the process.
/// glibc's defaults return pages to the system and fault them in again in every step. Called once, before the
/// first tensor.
void install_cpu_memory_tracking();
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
