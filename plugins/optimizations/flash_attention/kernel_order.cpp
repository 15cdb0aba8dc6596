#include "kernel_order.h"

namespace optrush {
std::vector<std::string> kernel_order(const std::string& architecture) {
  if (architecture == "sm_90") return {"cudnn", "flash", "efficient"};
  for (const char* family : {"sm_8", "sm_12"})
    if (architecture.starts_with(family)) return {"flash", "efficient", "cudnn"};
  return {};
}
}  // namespace optrush
