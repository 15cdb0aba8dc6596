#pragma once

namespace optrush {
/// Seconds in an environment variable, with fractions; `usual` if it is empty or not set. Throws an Error if
/// the value is not a time above 0 and up to `most`.
double environment_seconds(const char* name, double usual, double most = 86400);
}  // namespace optrush
