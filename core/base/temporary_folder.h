#pragma once
#include <filesystem>
#include <string>

#include "base/descriptor.h"

namespace optrush {
/// A new empty folder, which is removed with its contents at the end. The folder is locked as long as its
/// process lives, so folders of killed processes can be found and removed.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
  Descriptor lock_;
};

/// Removes temporary folders that killed processes of this user left.
void remove_abandoned_folders();
}  // namespace optrush
