#pragma once
#include <span>
#include <vector>

namespace optrush {
/// Read-only pages of files that this process has in memory, by range: code and constants of its libraries. A
/// fork does not have them until it reads them.
std::vector<std::span<const char>> resident_file_pages();

/// Maps these pages again after a fork. Then the resident memory of the process is that of a process which
/// has loaded the libraries, and is comparable with other programs.
void map_again(const std::vector<std::span<const char>>&);
}  // namespace optrush
