#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "analysis/analysis.h"
#include "analysis/compare.h"

namespace optrush {
/// A ratio of speeds and the limit that it must keep (docs/guides/continuous_integration.md). It breaks the
/// limit if its whole interval is below it, or if there is a `problem` because of which it has no interval.
struct LimitedSpeed {
  std::string name;  ///< of the rung
  double limit = 1;
  std::optional<Ratio> speed;
  std::string problem = {};

  bool broken() const { return !problem.empty() || speed->interval->high < limit; }
};

/// The rungs of a report that `limits` ("RUNG=1.05") name, relative to its base.
std::vector<LimitedSpeed> limited_speeds(const Analysis&, const std::vector<std::string>& limits);
/// All rungs of the first report, in each of the others.
std::vector<LimitedSpeed> limited_speeds(const ComparedReports&, double limit);

/// Prints one line and returns the exit code.
int print_limits(const std::vector<LimitedSpeed>&);
}  // namespace optrush
