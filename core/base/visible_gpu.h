#pragma once
#include <filesystem>

namespace optrush {
/// Whether the driver shows an NVIDIA GPU to this process, without loading any of CUDA: what a script may
/// choose sizes by. Whether it can compute is the worker's to find out. `root`: of the file system.
bool gpu_is_visible(const std::filesystem::path& root = "/");
}  // namespace optrush
