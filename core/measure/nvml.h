#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace optrush {
/// One GPU as the driver sees it. Empty optionals: this GPU or driver does not say.
struct GpuInfo {
  std::string name, sm;  ///< sm: "sm_90"
  int64_t memory_bytes = 0;
  std::optional<int64_t> multiprocessors;
  std::optional<int64_t> used_bytes;
  std::optional<bool> ecc;
  std::optional<int64_t> clock_mhz, max_clock_mhz, memory_clock_mhz, temperature;
  std::optional<double> power_watts, power_limit_watts;
  std::vector<std::string> throttling;  ///< why clocks are held down now: "sw_power_cap"
  int64_t other_processes = 0;          ///< that compute on it, besides this one
};

/// NVIDIA's management library, opened at run time: nothing is linked, and a machine without it is normal.
class Nvml {
 public:
  using Device = void*;
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// Null where there is none; `reason` then says why.
  static std::unique_ptr<Nvml> open(std::string& reason, const std::string& library = "libnvidia-ml.so.1");

  std::string driver() const;  ///< "580.65.06"
  std::vector<Device> devices() const;
  /// "0000:1b:00.0" as CUDA prints it; null where NVML has no such device.
  Device device_at(const std::string& bus_id) const;
  GpuInfo info(Device) const;
  /// Joules since the driver was loaded: differences count.
  std::optional<double> energy_joules(Device) const;
  /// Bytes of the GPU's memory that this process holds, its context and libraries included.
  std::optional<int64_t> process_bytes(Device) const;

  struct Functions;
  explicit Nvml(std::unique_ptr<Functions>);

 private:
  std::unique_ptr<Functions> call_;
};

/// The driver lists process numbers of the host, and in a namespace of its own (a container) a process does
/// not know its own among them.
struct ProcessView {
  unsigned self = 0;
  bool in_namespace = false;  ///< of process numbers, not the host's
  static ProcessView here();
};
/// Index of this process among those listed; in a namespace the only one listed is taken for it.
std::optional<size_t> own_process(const std::vector<unsigned>& listed, const ProcessView&);
/// How many others compute on the GPU. In a namespace one of those listed is taken for this process.
int64_t other_processes(const std::vector<unsigned>& listed, const ProcessView&);

/// Names of NVML's bits, less those that say that a GPU is idle or set so on purpose.
std::vector<std::string> throttle_names(uint64_t bits);
}  // namespace optrush
