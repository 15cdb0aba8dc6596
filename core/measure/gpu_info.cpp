#include "measure/nvml.h"

namespace optrush {
Record<GpuInfo> record_of(const GpuInfo*) {
  return Record<GpuInfo>("a GPU")
      .open()
      .field("name", &GpuInfo::name, {.promised = true})
      .field("memory_bytes", &GpuInfo::memory_bytes, {.promised = true})
      .field("used_bytes", &GpuInfo::used_bytes, {.nullable = true})
      .field("sm", &GpuInfo::sm, {.promised = true, .schema = {{"pattern", "^sm_[0-9]+$"}}})
      .field("multiprocessors", &GpuInfo::multiprocessors, {.nullable = true})
      .field("driver", &GpuInfo::driver, {.promised = true, .nullable = true})
      .field("ecc", &GpuInfo::ecc, {.nullable = true})
      .field("clock_mhz", &GpuInfo::clock_mhz, {.nullable = true})
      .field("max_clock_mhz", &GpuInfo::max_clock_mhz, {.nullable = true})
      .field("memory_clock_mhz", &GpuInfo::memory_clock_mhz, {.nullable = true})
      .field("power_watts", &GpuInfo::power_watts, {.nullable = true})
      .field("power_limit_watts", &GpuInfo::power_limit_watts, {.nullable = true})
      .field("temperature", &GpuInfo::temperature, "degrees Celsius", {.nullable = true})
      .field("throttling", &GpuInfo::throttling,
             "reasons for lowered clocks, before or after the measurement")
      .field("other_processes", &GpuInfo::other_processes);
}
}  // namespace optrush
