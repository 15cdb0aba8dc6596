#pragma once
#include <filesystem>
#include <string>

#include "base/descriptor.h"

namespace optrush {
/// A new empty folder, removed with all that is in it. Each end of a program's use of such folders also
/// removes those of programs that were killed: a folder is locked as long as its program lives.
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

/// Removes the folders that programs of this user left in the present temporary folder when they were killed.
void remove_abandoned_folders();
}  // namespace optrush
