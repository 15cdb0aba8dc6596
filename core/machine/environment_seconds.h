#pragma once

namespace optrush {
/// The seconds that an environment variable names, fractions allowed; `usual` where it is not set or empty.
/// An Error where it is no time above 0 and up to `most`.
double environment_seconds(const char* name, double usual, double most = 86400);
}  // namespace optrush
