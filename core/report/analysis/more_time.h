#pragma once
#include <string>

#include "report/analysis/analysis.h"

namespace optrush {
/// Seconds that more rounds would take until each row that is ok has kMinRounds with what it is compared
/// with, if they go on as the latest ones did; 0: all have.
double seconds_to_claims(const Analysis&);

/// "about 40 s", "about 4 min", "about 2.5 h": rounded up.
std::string about_time(double seconds);
}  // namespace optrush
