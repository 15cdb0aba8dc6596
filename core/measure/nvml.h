#pragma once
#include <cstdint>
#include <memory>
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

/// NVIDIA's management library. It is opened at run time, because many machines do not have it.
class Nvml {
 public:
  using Device = void*;
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// Null if there is none; `reason` then states why.
  static std::unique_ptr<Nvml> open(std::string& reason, const std::string& library = "libnvidia-ml.so.1");

  std::string driver() const;  ///< "580.65.06"
  std::vector<Device> devices() const;
  /// The device with a bus id in CUDA's form, "0000:1b:00.0"; null if NVML has none.
  Device device_at(const std::string& bus_id) const;
  GpuInfo info(Device) const;
  // The parts of info() that change within a step; each is one call of the driver.
  std::optional<int64_t> sm_clock_mhz(Device) const;
  std::optional<std::vector<std::string>> throttling(Device) const;
  std::optional<double> power_limit_watts(Device) const;
  /// Joules since the driver was loaded. Only differences have a meaning.
  std::optional<double> energy_joules(Device) const;
  /// Bytes of GPU memory that this process holds, including its context and libraries.
  std::optional<int64_t> process_bytes(Device) const;

  struct Functions;
  explicit Nvml(std::unique_ptr<Functions>);

 private:
  std::unique_ptr<Functions> call_;
};

/// How to find this process in the driver's list of host ids, which a container does not know.
struct ProcessView {
  unsigned self = 0;
  bool in_namespace = false;  ///< this process is in a PID namespace
  static ProcessView here();
};
/// Index of this process in the list. In a namespace, the only entry is taken for this process.
std::optional<size_t> own_process(const std::vector<unsigned>& listed, const ProcessView&);
/// Number of other processes on the GPU. In a namespace, one entry is taken for this process.
int64_t other_processes(const std::vector<unsigned>& listed, const ProcessView&);

/// The throttle reason of a GPU that keeps its power limit.
inline constexpr const char* kPowerCap = "sw_power_cap";
/// Names of NVML's throttle reasons, except those for an idle GPU and for clocks that a user has set.
std::vector<std::string> throttle_names(uint64_t bits);
}  // namespace optrush
