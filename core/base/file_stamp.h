#pragma once
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <optional>

namespace optrush {
/// Attributes of a file that change when it is written or replaced.
struct FileStamp {
  uint64_t device = 0, inode = 0;
  int64_t size = 0, seconds = 0, nanoseconds = 0;  ///< seconds, nanoseconds: time of the last change
  bool operator==(const FileStamp&) const = default;
};

/// None if there is no regular file.
inline std::optional<FileStamp> stamp_of(const std::filesystem::path& file) {
  struct stat status = {};
  if (::stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return FileStamp{status.st_dev, status.st_ino, status.st_size, status.st_ctim.tv_sec,
                   status.st_ctim.tv_nsec};
}
}  // namespace optrush
