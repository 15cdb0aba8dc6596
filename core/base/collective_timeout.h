#pragma once
#include <chrono>

namespace optrush {
/// How long a rank waits for the others in a collective: OPTRUSH_COLLECTIVE_TIMEOUT in seconds, else 60 s. An
/// Error where that is no number of seconds.
std::chrono::seconds collective_timeout();
}  // namespace optrush
