#pragma once
#include <c10/core/Device.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace optrush {
/// Waits until all work on the device is complete.
inline void wait_for(c10::Device device) {
  if (!device.is_cpu())
    c10::impl::VirtualGuardImpl(device.type())
        .synchronizeDevice(device.has_index() ? device.index() : c10::DeviceIndex(0));
}
}  // namespace optrush
