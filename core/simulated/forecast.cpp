#include "optrush/forecast.h"

#include "gpu/architecture.h"
#include "optrush/gpu_kernel.h"
#include "simulated/device.h"

namespace optrush {
bool is_forecast(at::Device device) {
  return device.is_privateuseone() && simulated::values() == simulated::Values::none;
}
bool is_forecast(const Tensor& tensor) { return is_forecast(tensor.device()); }

at::DeviceType form_of(at::Device device) {
  return device.is_privateuseone() ? simulated::form().type : device.type();
}
at::DeviceType form_of(const Tensor& tensor) { return form_of(tensor.device()); }

/// A plan knows the architecture of its GPU, which need not be present.
std::string gpu_architecture() {
  const simulated::Form& planned = simulated::form();
  return planned.type == at::kCUDA ? planned.architecture : current_architecture();
}
}  // namespace optrush
