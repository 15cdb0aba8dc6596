#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "optrush/gpu_kernel.h"

namespace optrush {
/// Compiled kernels on disk, one file per kernel. Its name is the hash of what the code depends on.
class KernelCache {
 public:
  explicit KernelCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  static std::string key_of(const GpuSource&, const std::string& kernel, const std::string& architecture,
                            const std::string& compiler);
  /// None if there is no file, or if its content has changed.
  std::optional<GpuCode> find(const std::string& key) const;
  /// Stores the code. If the folder can't be written, the kernel is compiled again next time.
  void keep(const std::string& key, const GpuCode&) const;
  std::filesystem::path file_of(const std::string& key) const { return folder_ / (key + ".cubin"); }

 private:
  std::filesystem::path folder_;
};
}  // namespace optrush
