#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace optrush {
/// Makes the allocator of CPU tensors count exact bytes, and keeps freed memory in the process (glibc's
/// defaults give pages back and fault them in again at every step). Once, before the first tensor.
void install_cpu_memory_tracking();
/// Bytes of CPU tensors now.
int64_t cpu_allocated();

struct MemoryPeak {
  /// Of a GPU: LibTorch's `active_bytes`, in blocks; of a CPU: what tensors asked for.
  int64_t allocated = 0;
  std::optional<int64_t> reserved;  ///< by a caching allocator
};
/// Bytes of tensors on a device now: what a peak counts.
int64_t allocated_now(at::Device);
/// Starts a new peak at the present use.
void reset_memory_peak(at::Device);
MemoryPeak memory_peak(at::Device);
/// Largest resident set of this process so far, bytes.
int64_t peak_resident_bytes();
}  // namespace optrush
