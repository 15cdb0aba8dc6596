#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace optrush {
/// A regular file, or a link to one.
struct ListedFile {
  std::string path;  ///< begins with the listed path
  int64_t size = 0;  ///< in bytes
  std::filesystem::file_time_type written;
};

/// What becomes of a folder that can't be read.
enum class Unreadable : uint8_t { error, skipped };

/// The file of this path, or all files of this folder and of the folders below it, in no order. None where
/// nothing is there. Links to folders below it are not followed. A corpus has thousands of files: the system
/// is asked once for each.
std::vector<ListedFile> listed_files(const std::filesystem::path&, Unreadable);
}  // namespace optrush
