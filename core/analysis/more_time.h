#pragma once
#include <string>

#include "analysis/analysis.h"

namespace optrush {
/// The estimated seconds of additional rounds until each row that is ok shares kMinRounds rounds with its
/// references, at the speed of the latest rounds; 0: all do.
double seconds_to_claims(const Analysis&);

/// "about 40 s", "about 4 min", "about 2.5 h"; rounded up.
std::string about_time(double seconds);
}  // namespace optrush
