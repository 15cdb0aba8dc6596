#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace optrush {
/// The folder of one kind of artifact that later runs use again, such as compiled code: `kind` in
/// $OPTRUSH_CACHE, else in $XDG_CACHE_HOME/optimization-rush, else in ~/.cache/optimization-rush. It may not
/// exist yet.
std::filesystem::path cache_folder(const std::string& kind);

/// The Python that goes with this program: OPTRUSH_PYTHON if it is set, else the .venv of the source tree,
/// else the one of the environment that its LibTorch lies in, else the python3 that would import that torch.
/// Empty where there is none.
std::filesystem::path project_python();

/// Runs it with `arguments` and waits. Its output goes to `log`. Returns the exit code; 128 + n where signal
/// n ended it. An Error where there is no Python or it can't be started.
int run_python(const std::vector<std::string>& arguments, const std::filesystem::path& log);

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
