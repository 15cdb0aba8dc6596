#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace optrush {
/// The cache folder for one kind of artifact, such as compiled code: `kind` in $OPTRUSH_CACHE, otherwise in
/// $XDG_CACHE_HOME/optimization-rush, otherwise in ~/.cache/optimization-rush. It may not exist yet.
std::filesystem::path cache_folder(const std::string& kind);

/// The Python that belongs to this program: OPTRUSH_PYTHON if set, otherwise the .venv of the source tree,
/// otherwise the Python of the environment that contains its LibTorch, otherwise the python3 that imports
/// this torch. Empty if there is none.
std::filesystem::path project_python();

/// Runs project_python() with `arguments` and waits for its end. Its output goes to `log`. Returns the exit
/// code, or 128 + n if signal n ended it. Throws an Error if there is no Python or it cannot be started.
int run_python(const std::vector<std::string>& arguments, const std::filesystem::path& log);

/// The memory source of CPU tensors. The host counts requested bytes above it.
class HostMemory {
 public:
  virtual ~HostMemory() = default;
  /// Allocates with an alignment of 64 bytes; throws c10::OutOfMemoryError. Called from any thread.
  virtual void* allocate(size_t bytes) = 0;
  /// Releases a block; `bytes` is the requested size. Called from any thread, not only the allocating one.
  virtual void release(void* block, size_t bytes) noexcept = 0;
  /// Peak of the bytes obtained from the system since the last reset, used or not.
  virtual int64_t peak_reserved() const = 0;
  virtual void reset_peak() = 0;
};

/// Sets the source of new CPU tensors. Existing tensors keep theirs. A source is kept until the process ends.
void use_host_memory(std::shared_ptr<HostMemory>);
}  // namespace optrush
