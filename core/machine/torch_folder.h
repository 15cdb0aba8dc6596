#pragma once
#include <filesystem>
#include <vector>

namespace optrush {
/// The torch package (or LibTorch folder) of this program and its workers: the one whose libtorch_cpu.so this
/// process has loaded, otherwise OPTRUSH_TORCH, the torch that was linked, the torch beside this package in
/// site-packages, or that of OPTRUSH_PYTHON or python3. Empty if there is none.
std::filesystem::path torch_folder();

/// Existing folders beside a torch and in the machine's CUDA toolkit: libraries to link or open at run time,
/// and headers for kernels. The folders of torch's environment come first.
std::vector<std::filesystem::path> cuda_library_folders(const std::filesystem::path& torch);
std::vector<std::filesystem::path> cuda_include_folders(const std::filesystem::path& torch);
}  // namespace optrush
