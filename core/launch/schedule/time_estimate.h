#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "launch/schedule/schedule.h"
#include "results/stored.h"

namespace optrush {
/// What determines how long a run of an experiment takes.
struct Work {
  Purpose purpose = Purpose::measure;  ///< a drift run counts as one of the base
  int64_t variant = 0;
  int64_t steps = 0;  ///< number of steps, warm-up included
  auto operator<=>(const Work&) const = default;
};
Work work_of(const RunSpec&);

/// Estimates the time of jobs from finished ones: of the same variant, otherwise the mean of the same
/// purpose.
class TimeLeft {
 public:
  void done(const Work&, double seconds);
  /// None before a comparable job has finished.
  std::optional<double> expected(const Work&) const;
  /// A running job with `elapsed` seconds for `steps` steps; `before`: steps of an earlier start; `length`:
  /// steps of the whole run, 0: as its spec states.
  struct UnderWay {
    RunSpec spec;
    double elapsed = 0;
    int64_t steps = 0, before = 0, length = 0;
  };
  /// The remaining time of running jobs and of `later` (counts of runs); none if one of them is unknown.
  std::optional<double> remaining(const std::vector<UnderWay>&, const std::map<Work, int64_t>& later) const;

 private:
  std::optional<double> mean_of(Purpose) const;

  using Kind = std::pair<Purpose, int64_t>;  ///< (purpose, variant)
  struct Took {
    double seconds = 0;
    int64_t steps = 0;
  };
  std::map<Kind, Took> took_;
};

struct TimeEstimate {
  double seconds = 0;  ///< seconds of the runs with an estimate
  size_t known = 0, all = 0;
};

/// Estimates the time of jobs. A stored run is used for a job if their specs differ only in round, purpose,
/// place and number of steps: it provides the times of start, compilation and steps. Other jobs get no
/// estimate.
TimeEstimate estimate_time(const std::vector<Job>&, const Stored&);
}  // namespace optrush
