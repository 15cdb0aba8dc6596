#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

#include "measure/nvml.h"

namespace optrush {
/// Measures the energy of a run's GPU with the driver's counter. All results are empty on a CPU and without
/// NVML.
class DeviceMeter {
 public:
  explicit DeviceMeter(at::Device);
  DeviceMeter(std::unique_ptr<Nvml>, Nvml::Device);

  /// Starts a measurement of energy.
  void start();
  /// Joules of the whole GPU since start().
  std::optional<double> joules() const;
  /// Bytes of GPU memory that this process holds now.
  std::optional<int64_t> process_bytes() const;

 private:
  std::optional<double> counter() const;
  std::unique_ptr<Nvml> nvml_;
  Nvml::Device device_ = nullptr;
  std::optional<double> started_;
};
}  // namespace optrush
