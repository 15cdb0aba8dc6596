#pragma once
#include <cstdint>
#include <filesystem>

namespace optrush {
/// Whether the driver shows an NVIDIA GPU to this process, without loading CUDA. Scripts choose sizes by it;
/// a worker finds out whether the GPU works. `root`: root of the file system.
bool gpu_is_visible(const std::filesystem::path& root = "/");

/// The GPU of a local rank among `visible` ones, which ranks take in turn if there are fewer of them.
int64_t gpu_of(int64_t local_rank, int64_t visible);

/// Whether several ranks may train on one GPU: OPTRUSH_SHARE_GPU=1.
bool ranks_may_share_a_gpu();
}  // namespace optrush
