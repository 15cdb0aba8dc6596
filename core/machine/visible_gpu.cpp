#include "machine/visible_gpu.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "machine/environment.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
/// nvidia0, nvidia1, ..., but not nvidiactl and others, which also exist without a GPU.
bool is_gpu_device(const std::string& name) {
  constexpr std::string_view kStart = "nvidia";
  const auto digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  return name.starts_with(kStart) && name.size() > kStart.size() &&
         std::ranges::all_of(std::string_view(name).substr(kStart.size()), digit);
}

bool holds(const fs::path& folder, bool (*wanted)(const std::string&)) {
  std::error_code none;
  for (fs::directory_iterator entry(folder, none), end; !none && entry != end; entry.increment(none))
    if (wanted(entry->path().filename())) return true;
  return false;
}
}  // namespace

int64_t gpu_of(int64_t local_rank, int64_t visible) { return local_rank % std::max<int64_t>(1, visible); }

bool ranks_may_share_a_gpu() { return environment_switch("OPTRUSH_SHARE_GPU"); }

bool gpu_is_visible(const fs::path& root) {
  if (const char* devices = std::getenv("CUDA_VISIBLE_DEVICES");
      devices != nullptr && (std::string_view(devices).empty() || devices[0] == '-'))
    return false;
  const auto any = [](const std::string&) { return true; };
  if (holds(root / "proc/driver/nvidia/gpus", any)) return true;
  // Some sandboxes (gVisor) have the devices, but no driver in /proc.
  if (holds(root / "dev", is_gpu_device)) return true;
  // Under WSL, a GPU of any maker is /dev/dxg. Windows adds this library for NVIDIA's.
  return fs::exists(root / "dev/dxg") && fs::exists(root / "usr/lib/wsl/lib/libcuda.so.1");
}
}  // namespace optrush
