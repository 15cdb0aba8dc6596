#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace optrush {
/// A regular file, or a link to one.
struct ListedFile {
  std::string path;  ///< starts with the path given to listed_files()
  int64_t size = 0;  ///< in bytes
  std::filesystem::file_time_type written;
};

/// Treatment of a folder that can't be read.
enum class Unreadable : uint8_t { error, skipped };

/// The file at this path, or all files below this folder, in no order; empty if nothing is there. Links to
/// folders below it are not followed. There is one system call per file, because a corpus has thousands of
/// files.
std::vector<ListedFile> listed_files(const std::filesystem::path&, Unreadable);
}  // namespace optrush
