#pragma once
#include <chrono>
#include <string>

namespace optrush {
/// The value of an environment variable; "" if it is not set.
std::string environment_variable(const char* name);

/// Seconds in an environment variable, with fractions; `usual` if it is empty or not set. Throws an Error if
/// the value is not a time above 0 and up to `most`.
double environment_seconds(const char* name, double usual, double most = 86400);

/// Whether an environment variable is 1; false if it is 0 or empty; otherwise an Error.
bool environment_switch(const char* name);

/// How long a rank waits in a collective: OPTRUSH_COLLECTIVE_TIMEOUT, rounded up to seconds; usually 600 s.
std::chrono::seconds collective_timeout();
/// The same while the ranks save a state: OPTRUSH_STATE_TIMEOUT, otherwise an hour.
std::chrono::seconds state_timeout();

/// The name of this machine; "" if it has none.
std::string host_name();
}  // namespace optrush
