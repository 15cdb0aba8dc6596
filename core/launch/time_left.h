#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launch/schedule.h"

namespace optrush {
/// Guesses how long jobs will take from those that are done: the same variant's, else the mean of its kind.
class TimeLeft {
 public:
  void done(const RunSpec&, double seconds);
  /// None before anything comparable is done.
  std::optional<double> expected(const RunSpec&) const;
  /// Of `later` and what is left of the job that has run for `elapsed` seconds and `steps` steps.
  std::optional<double> remaining(const RunSpec& present, double elapsed, int64_t steps,
                                  const std::vector<Job>& later) const;

 private:
  using Kind = std::pair<std::string, int64_t>;  ///< purpose and variant; a drift run is one of the base
  static Kind kind(const RunSpec&);

  std::map<Kind, double> seconds_;
};
}  // namespace optrush
