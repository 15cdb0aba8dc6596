#pragma once
#include <chrono>

namespace optrush {
/// How long a rank waits for the others in a collective: OPTRUSH_COLLECTIVE_TIMEOUT in seconds, rounded up to
/// a whole one, else 60 s. An Error where that is no time.
std::chrono::seconds collective_timeout();
}  // namespace optrush
