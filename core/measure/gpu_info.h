#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spec/record.h"

namespace optrush {
/// A GPU as the driver reports it. An empty optional: this GPU or driver does not report the value.
struct GpuInfo {
  std::string name, sm;  ///< sm: "sm_90"
  int64_t memory_bytes = 0;
  std::optional<int64_t> used_bytes, multiprocessors;
  std::optional<std::string> driver;
  std::optional<bool> ecc;
  std::optional<int64_t> clock_mhz, max_clock_mhz, memory_clock_mhz, temperature;
  std::optional<double> power_watts, power_limit_watts;
  std::vector<std::string> throttling;  ///< reasons why clocks are reduced now: "sw_power_cap"
  int64_t other_processes = 0;          ///< other processes that compute on it
};
Record<GpuInfo> record_of(const GpuInfo*);
}  // namespace optrush
