#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "spec/record.h"

namespace optrush {
/// The processors and the memory that this process may use, from the kernel. An empty optional: unknown.
struct CpuInfo {
  std::string name;
  std::optional<std::string> model;  ///< "family 25, model 17": many processors may have one name
  int64_t cores = 0;                 ///< physical cores in this process's affinity mask
  int64_t threads = 0;               ///< logical processors in the mask
  std::optional<double> quota;       ///< cores that the control group allows; none: no limit
  std::vector<std::string> isa;      ///< instruction sets that matter for training
  bool broken_amx = false;  ///< AMX is announced without a description of its tiles; it is not in `isa`
  std::optional<int64_t> cache_bytes;  ///< sum over the last-level caches of these processors
  int64_t memory_bytes = 0, available_bytes = 0;
  std::optional<std::string> governor, huge_pages;
  std::string governor_driver;  ///< empty: unknown
  double load_average = 0;      ///< of the last minute
  double busy = 0;              ///< processors that other programs use
};
Record<CpuInfo> record_of(const CpuInfo*);

/// `root`: the folder of /proc and /sys; tests pass another one.
CpuInfo read_cpu(const std::filesystem::path& root = "/");

/// Jiffies since boot, summed over all processors.
struct CpuTimes {
  double busy = 0, total = 0;
  int64_t processors = 0;
};
CpuTimes read_cpu_times(const std::filesystem::path& root = "/");
/// The mean number of busy processors between two readings.
double busy_processors(const CpuTimes& before, const CpuTimes& after);
/// Whether other programs use so many of the machine's processors that timings vary: more than a tenth.
inline bool is_busy(double busy, double processors) { return busy > 0.1 * processors; }

/// For example "Debian GNU/Linux 12 (bookworm)".
std::string operating_system(const std::filesystem::path& root = "/");
}  // namespace optrush
