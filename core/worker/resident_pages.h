#pragma once
#include <span>
#include <vector>

namespace optrush {
/// Read-only pages of files that this process has in memory, by range: code and constants of its libraries. A
/// fork does not have them until it reads them.
std::vector<std::span<const char>> resident_file_pages();

/// Maps these pages again after a fork. The resident memory of the process then includes its libraries, so it
/// can be compared with the memory of other programs.
void map_again(const std::vector<std::span<const char>>&);
}  // namespace optrush
