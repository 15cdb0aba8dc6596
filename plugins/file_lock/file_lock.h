#pragma once
#include <filesystem>
#include <string>

namespace optrush {
/// A lock between processes, held during the object's lifetime. Waits for other holders.
class FileLock {
 public:
  /// Locks `file`, which is made if it is missing. Throws an Error with `cure` if it cannot be locked.
  FileLock(const std::filesystem::path& file, const std::string& cure);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_;
};
}  // namespace optrush
