#include "machine/torch_folder.h"

#include <dlfcn.h>
#include <link.h>

#include "base/files.h"
#include "build_info.h"
#include "machine/environment.h"
#include "machine/installation.h"
#include "machine/python.h"
#include "optrush/error.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
/// The parent of the folder from which this process loaded libtorch_cpu.so, if it did.
fs::path loaded_torch() {
  void* library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return {};
  const link_map* map = nullptr;
  const bool known = dlinfo(library, RTLD_DI_LINKMAP, &map) == 0;
  const fs::path file = known ? fs::path(map->l_name).lexically_normal() : fs::path();
  dlclose(library);
  return file.parent_path().parent_path();
}

bool is_torch(const fs::path& folder) { return fs::exists(folder / "lib" / "libtorch_cpu.so"); }

fs::path find_torch() {
  if (fs::path loaded = loaded_torch(); !loaded.empty()) return loaded;
  if (fs::path chosen = environment_variable("OPTRUSH_TORCH"); !chosen.empty()) return chosen;
  const Installation here = Installation::of_this_program();
  for (const fs::path& folder : {here.torch, here.root.parent_path() / "torch"})
    if (!folder.empty() && is_torch(folder)) return folder;
  const std::string python = environment_variable("OPTRUSH_PYTHON");
  const fs::path found = torch_of_python(python.empty() ? "python3" : python).torch;
  return is_torch(found) ? found : fs::path();
}

/// Folders with include/ and lib/ or lib64/ in NVIDIA's wheels: nvidia/cu13, or before 13 one per package.
std::vector<fs::path> cuda_roots(const fs::path& torch) {
  const std::string version = OPTRUSH_CUDA_VERSION;
  const fs::path wheels = torch.parent_path() / "nvidia";
  std::vector<fs::path> roots = {wheels / ("cu" + version.substr(0, version.find('.'))),
                                 wheels / "cuda_runtime", wheels / "cuda_nvrtc",
                                 environment_variable("CUDA_HOME"), "/usr/local/cuda"};
  std::erase(roots, fs::path());
  return roots;
}

std::vector<fs::path> existing(const std::vector<fs::path>& roots, const std::vector<const char*>& names) {
  std::vector<fs::path> found;
  for (const fs::path& root : roots)
    for (const char* name : names)
      if (fs::is_directory(root / name)) found.push_back(root / name);
  return found;
}
}  // namespace

fs::path torch_folder() {
  static const fs::path found = find_torch();
  return found;
}

std::string torch_version_in(const fs::path& torch) {
  const fs::path header = torch / "include/torch/headeronly/version.h";
  if (!fs::exists(header)) return "";
  const std::string text = read_file(header);
  std::string version;
  for (const std::string name : {"VERSION_MAJOR ", "VERSION_MINOR ", "VERSION_PATCH "}) {
    const size_t place = text.find(name);
    if (place == std::string::npos) return "";
    version += (version.empty() ? "" : ".") + std::to_string(std::stoi(text.substr(place + name.size())));
  }
  return version;
}

std::string minor_version(const std::string& version) {
  return version.substr(0, version.find('.', version.find('.') + 1));
}

fs::path worker_for_torch(const fs::path& torch) {
  const std::string built = minor_version(OPTRUSH_TORCH_VERSION), found = torch_version_in(torch);
  if (!found.empty() && minor_version(found) != built)
    throw Error(
        ErrorCode::missing_requirement,
        "torch " + found + " in " + torch.string() + " does not fit: this program was built for LibTorch " +
            built,
        "install 'torch==" + built + ".*' there, or build the program for that torch: ./optrush setup");
  return Installation::of_this_program().worker;
}

std::vector<fs::path> cuda_library_folders(const fs::path& torch) {
  return existing(cuda_roots(torch), {"lib", "lib64"});
}

std::vector<fs::path> cuda_include_folders(const fs::path& torch) {
  return existing(cuda_roots(torch), {"include", "include/cccl"});
}
}  // namespace optrush
