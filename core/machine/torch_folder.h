#pragma once
#include <filesystem>
#include <vector>

namespace optrush {
/// The torch package (or LibTorch folder) that this program and its workers run with: the one whose
/// libtorch_cpu.so is loaded in this process; else OPTRUSH_TORCH, else what was linked at build time, else
/// the one beside this package in site-packages, else the one of OPTRUSH_PYTHON or of python3. Empty where
/// there is none.
std::filesystem::path torch_folder();

/// Folders beside a torch, and of the CUDA toolkit of this machine, that exist: what is linked or opened at
/// run time, and headers that kernels include. Those of torch's own environment come first.
std::vector<std::filesystem::path> cuda_library_folders(const std::filesystem::path& torch);
std::vector<std::filesystem::path> cuda_include_folders(const std::filesystem::path& torch);
}  // namespace optrush
