#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

#include "measure/nvml.h"

namespace optrush {
/// Energy counted by the driver for the GPU of a run. Everything is empty on a CPU and where NVML is missing.
class DeviceMeter {
 public:
  explicit DeviceMeter(at::Device);
  DeviceMeter(std::unique_ptr<Nvml>, Nvml::Device);

  /// Starts a measurement of energy.
  void start();
  /// Joules since start(), of the whole GPU.
  std::optional<double> joules() const;
  /// Bytes of the GPU's memory that this process holds now.
  std::optional<int64_t> process_bytes() const;

 private:
  std::optional<double> counter() const;
  std::unique_ptr<Nvml> nvml_;
  Nvml::Device device_ = nullptr;
  std::optional<double> started_;
};
}  // namespace optrush
