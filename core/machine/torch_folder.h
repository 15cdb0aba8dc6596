#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace optrush {
/// The torch package (or LibTorch folder) of this program and its workers: the one whose libtorch_cpu.so this
/// process has loaded, otherwise OPTRUSH_TORCH, the torch that was linked, the torch beside this package in
/// site-packages, or that of OPTRUSH_PYTHON or python3. Empty if there is none.
std::filesystem::path torch_folder();

/// "2.11.0": the version of the torch in this folder, from its headers; "" if they are not there.
std::string torch_version_in(const std::filesystem::path& torch);
/// "2.11" from "2.11.0+cu130". LibTorch keeps its binary interface within a minor version.
std::string minor_version(const std::string& version);
/// The worker of this program. Throws an Error if `torch` has another minor version than this build.
std::filesystem::path worker_for_torch(const std::filesystem::path& torch = torch_folder());

/// Existing folders beside a torch and in the machine's CUDA toolkit: libraries to link or open at run time,
/// and headers for kernels. The folders of torch's environment come first.
std::vector<std::filesystem::path> cuda_library_folders(const std::filesystem::path& torch);
std::vector<std::filesystem::path> cuda_include_folders(const std::filesystem::path& torch);
}  // namespace optrush
