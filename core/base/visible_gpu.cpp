#include "base/visible_gpu.h"

#include <cstdlib>
#include <string_view>
#include <system_error>

namespace optrush {
namespace fs = std::filesystem;

bool gpu_is_visible(const fs::path& root) {
  if (const char* devices = std::getenv("CUDA_VISIBLE_DEVICES");
      devices != nullptr && (std::string_view(devices).empty() || devices[0] == '-'))
    return false;
  std::error_code none;
  return !fs::is_empty(root / "proc/driver/nvidia/gpus", none) && !none;
}
}  // namespace optrush
