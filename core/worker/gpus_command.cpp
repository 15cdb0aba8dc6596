#include "base/files.h"
#include "measure/gpus.h"
#include "worker/commands.h"

namespace optrush {
int gpus_command(const std::filesystem::path& out) {
  Json list = Json::array();
  for (const GpuInfo& gpu : visible_gpus(nullptr))
    list.push_back({{"name", gpu.name}, {"memory_bytes", gpu.memory_bytes}, {"sm", gpu.sm}});
  write_json(out, list);
  return 0;
}
}  // namespace optrush
