#pragma once
#include <c10/core/Device.h>

namespace optrush {
/// Until nothing runs on the device any more.
void wait_for(c10::Device);
}  // namespace optrush
