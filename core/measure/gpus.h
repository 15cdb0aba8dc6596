#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
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
