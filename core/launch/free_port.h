#pragma once
#include <cstdint>

namespace optrush {
/// A TCP port that nobody listens at on this machine now.
uint16_t free_port();
}  // namespace optrush
