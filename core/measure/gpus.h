#pragma once
#include <ATen/core/Tensor.h>

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "measure/nvml.h"

namespace optrush {
struct CudaSupport {
  bool available = false;
  std::string reason;  ///< why CUDA is not available
  explicit operator bool() const { return available; }
};

/// Opens libtorch_cuda.so if there are a driver and a GPU. Later calls return the same result. It must be
/// called before any other use of CUDA, because LibTorch checks only once whether the library is loaded.
const CudaSupport& load_cuda();

/// The GPUs that this process can use, in CUDA's order. Without CUDA: the GPUs that NVML lists.
std::vector<GpuInfo> visible_gpus(const Nvml*);
/// PCI address of a CUDA device, by which NVML identifies it; "" if there is none.
std::string cuda_bus_id(int index);
/// Bytes of the last-level cache of a CUDA device; 0: none.
int64_t cuda_cache_bytes(int index);

/// What a GPU did while a meter was on. An empty optional: not known.
struct GpuReadings {
  double seconds = 0;
  std::optional<double> joules;        ///< of the whole GPU
  std::optional<double> sm_clock_mhz;  ///< mean of the samples
  std::optional<double> at_power_cap;  ///< share of the samples in which the power limit lowered the clock
  std::optional<double> power_limit_watts;  ///< that the driver enforces
  std::set<std::string> throttling;         ///< all reasons for lowered clocks
  std::optional<double> watts() const {
    return joules && seconds > 0 ? std::optional(*joules / seconds) : std::nullopt;
  }
};

/// Measures a GPU by NVML's energy counter at the ends of intervals, and in between by samples that a thread
/// takes ten times a second, so that no step waits for the driver. Without NVML it reads nothing.
class GpuMeter {
 public:
  explicit GpuMeter(at::Device);
  GpuMeter(std::unique_ptr<Nvml>, Nvml::Device);

  /// Starts an interval.
  void start();
  /// Ends it. The device must have finished its work. Returns its joules.
  std::optional<double> stop();
  /// Of all intervals together. Without the energy of one of them, the energy is not known.
  GpuReadings readings() const;
  /// Bytes of GPU memory that this process holds now.
  std::optional<int64_t> process_bytes() const;

 private:
  void sample();
  std::optional<double> counter() const;

  std::unique_ptr<Nvml> nvml_;
  Nvml::Device device_ = nullptr;
  std::chrono::steady_clock::time_point started_;
  std::optional<double> joules_at_start_, joules_ = 0;
  double seconds_ = 0, clocks_ = 0;
  int64_t samples_ = 0, of_clock_ = 0, at_cap_ = 0;
  bool knows_throttling_ = false;
  std::set<std::string> throttling_;
  std::jthread sampler_;  ///< the last member, so that it ends before the others
};
}  // namespace optrush
