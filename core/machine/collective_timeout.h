#pragma once
#include <chrono>

namespace optrush {
/// How long a rank waits for the others in a collective: OPTRUSH_COLLECTIVE_TIMEOUT in seconds, rounded up,
/// otherwise 60 s. Throws an Error if the value is not a time.
std::chrono::seconds collective_timeout();
}  // namespace optrush
