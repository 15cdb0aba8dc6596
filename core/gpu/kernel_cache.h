#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "optrush/gpu_kernel.h"

namespace optrush {
/// Compiled kernels on disk, one file each, named by the hash of all that its code depends on.
class KernelCache {
 public:
  /// $OPTRUSH_CACHE, else $XDG_CACHE_HOME/optimization-rush, else ~/.cache/optimization-rush; in it
  /// `kernels`.
  static std::filesystem::path default_folder();
  explicit KernelCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  static std::string key_of(const GpuSource&, const std::string& kernel, const std::string& architecture,
                            const std::string& compiler);
  /// Nothing where there is none, or where the file is not what was written.
  std::optional<GpuCode> find(const std::string& key) const;
  /// A folder that can't be written to is no error: the kernel is compiled again next time.
  void keep(const std::string& key, const GpuCode&) const;
  std::filesystem::path file_of(const std::string& key) const { return folder_ / (key + ".cubin"); }

 private:
  std::filesystem::path folder_;
};
}  // namespace optrush
