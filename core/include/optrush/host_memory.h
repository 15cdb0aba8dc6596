#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace optrush {
/// Where the bytes of CPU tensors come from. The host counts what tensors ask for above it, so counts are the
/// same with any source.
class HostMemory {
 public:
  virtual ~HostMemory() = default;
  /// Aligned to 64 bytes; throws c10::OutOfMemoryError. From any thread.
  virtual void* allocate(size_t bytes) = 0;
  /// `bytes` as they were asked for. From any thread, not only the one that allocated.
  virtual void release(void* block, size_t bytes) noexcept = 0;
  /// Largest number of bytes held of the system since the last reset, used or not.
  virtual int64_t peak_reserved() const = 0;
  virtual void reset_peak() = 0;
};

/// CPU tensors that are made from now on take their bytes from it; the ones that exist go back to where
/// theirs came from. It is kept until the process ends.
void use_host_memory(std::shared_ptr<HostMemory>);
}  // namespace optrush
