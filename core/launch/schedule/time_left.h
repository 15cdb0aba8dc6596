#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launch/schedule/schedule.h"

namespace optrush {
/// Guesses how long jobs will take from those that are done: the same variant's, else the mean of its kind.
class TimeLeft {
 public:
  void done(const RunSpec&, double seconds);
  /// None before anything comparable is done.
  std::optional<double> expected(const RunSpec&) const;
  /// A job that has had `elapsed` seconds for `steps` steps; `before` are those of an earlier start.
  struct UnderWay {
    RunSpec spec;
    double elapsed = 0;
    int64_t steps = 0, before = 0;
  };
  /// Remaining time of `later` and of the present runs; none if one of them is unknown.
  std::optional<double> remaining(const std::vector<UnderWay>&, const std::vector<Job>& later) const;

 private:
  using Kind = std::pair<Purpose, int64_t>;  ///< and variant; a drift run is one of the base
  static Kind kind(const RunSpec&);

  struct Took {
    double seconds = 0;
    int64_t steps = 0;
  };
  std::map<Kind, Took> took_;
};
}  // namespace optrush
