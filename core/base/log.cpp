#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

// Only this file includes spdlog, because Debian's spdlog uses another version of fmt than LibTorch's
// headers.
namespace optrush::log {
namespace {
constexpr const char* kName = "optrush";
}

void enable() {
  if (enabled()) return;
  const auto logger = spdlog::stderr_logger_st(kName);
  logger->set_pattern("[%H:%M:%S.%e] %v");
  logger->set_level(spdlog::level::debug);
}

bool enabled() { return spdlog::get(kName) != nullptr; }

void debug(std::string_view message) {
  if (const auto logger = spdlog::get(kName)) logger->debug("{}", message);
}
}  // namespace optrush::log
