#pragma once
#include <string>

#include "launch/check_run.h"

namespace optrush {
/// A line for each plugin with the number of its cases by kind and how they ended, then every reason once,
/// with the cases that gave it, then the counts.
std::string check_table(const CheckOutcome&);
/// {"schema_version", "device", "machine", "counts", "cases", "unusable", ...} for programs.
Json check_json(const CheckOutcome&);
/// A time as people write it, in seconds: "90", "90s", "8m", "1h". A UsageError names the forms.
double parse_duration(const std::string& text);
}  // namespace optrush
