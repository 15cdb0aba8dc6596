#pragma once
#include <cstdint>
#include <filesystem>

namespace optrush {
/// Whether the driver shows an NVIDIA GPU to this process, without loading any of CUDA: what a script may
/// choose sizes by. Whether it can compute is the worker's to find out. `root`: of the file system.
bool gpu_is_visible(const std::filesystem::path& root = "/");

/// Which of `visible` GPUs is a local rank's. A launcher may show each process GPUs of its own, fewer than
/// there are ranks on the machine: they are then taken in turn.
int64_t gpu_of(int64_t local_rank, int64_t visible);
}  // namespace optrush
