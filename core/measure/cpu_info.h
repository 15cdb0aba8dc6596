#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace optrush {
/// The processors and memory available to this process, as the kernel reports them.
struct CpuInfo {
  std::string name;
  int64_t cores = 0;             ///< physical cores in this process's affinity mask
  int64_t threads = 0;           ///< logical processors in it
  double quota = 0;              ///< cores that the control group allows; 0: no limit
  std::vector<std::string> isa;  ///< instruction sets that matter for training
  bool broken_amx = false;       ///< announced, but without a description of its tiles; not in `isa`
  int64_t cache_bytes = 0;       ///< last-level caches of these processors together; 0: unknown
  int64_t memory_bytes = 0, available_bytes = 0;
  std::string governor, governor_driver, huge_pages;  ///< empty: unknown
  double load = 0;                                    ///< average over one minute
};

/// `root` is where /proc, /sys are looked for: tests give a folder.
CpuInfo read_cpu(const std::filesystem::path& root = "/");

/// Jiffies of all processors since boot.
struct CpuTimes {
  double busy = 0, total = 0;
  int64_t processors = 0;
};
CpuTimes read_cpu_times(const std::filesystem::path& root = "/");
/// Processors that were busy, on average, between two readings.
double busy_processors(const CpuTimes& before, const CpuTimes& after);

/// "Debian GNU/Linux 12 (bookworm)".
std::string operating_system(const std::filesystem::path& root = "/");
}  // namespace optrush
