#include "machine/collective_timeout.h"

#include "machine/environment_seconds.h"

namespace optrush {
std::chrono::seconds collective_timeout() {
  return std::chrono::ceil<std::chrono::seconds>(
      std::chrono::duration<double>(environment_seconds("OPTRUSH_COLLECTIVE_TIMEOUT", 60)));
}
}  // namespace optrush
