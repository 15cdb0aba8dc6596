#pragma once
#include <string>

#include "launch/run/check_run.h"

namespace optrush {
/// A line per plugin with the number of its cases by kind and result, then every reason with its cases, then
/// the counts.
std::string check_table(const CheckOutcome&);
/// {"schema_version", "device", "machine", "counts", "cases", "unusable", ...} for programs.
Json check_json(const CheckOutcome&);
}  // namespace optrush
