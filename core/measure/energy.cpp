#include "measure/energy.h"

#include "measure/gpus.h"

namespace optrush {
DeviceMeter::DeviceMeter(at::Device device) {
  if (!device.is_cuda()) return;
  std::string reason;
  nvml_ = Nvml::open(reason);
  if (nvml_) device_ = nvml_->device_at(cuda_bus_id(device.has_index() ? device.index() : 0));
}

DeviceMeter::DeviceMeter(std::unique_ptr<Nvml> nvml, Nvml::Device device)
    : nvml_(std::move(nvml)), device_(device) {}

void DeviceMeter::start() { started_ = counter(); }

std::optional<double> DeviceMeter::joules() const {
  const auto now = counter();
  return now && started_ ? std::optional(*now - *started_) : std::nullopt;
}

std::optional<int64_t> DeviceMeter::process_bytes() const {
  return device_ ? nvml_->process_bytes(device_) : std::nullopt;
}

std::optional<double> DeviceMeter::counter() const {
  return device_ ? nvml_->energy_joules(device_) : std::nullopt;
}
}  // namespace optrush
