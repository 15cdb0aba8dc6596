#pragma once
#include <c10/core/Device.h>

namespace optrush {
/// Waits until all work on the device is complete.
void wait_for(c10::Device);
}  // namespace optrush
