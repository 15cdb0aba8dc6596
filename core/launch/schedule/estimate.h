#pragma once
#include <cstddef>
#include <vector>

#include "launch/schedule/schedule.h"
#include "results/stored.h"

namespace optrush {
struct TimeEstimate {
  double seconds = 0;  ///< seconds of the runs with an estimate
  size_t known = 0, all = 0;
};

/// Estimates the time of jobs. A stored run is used for a job if their specs differ only in round, purpose,
/// place and number of steps: it provides the times of start, compilation and steps. Other jobs get no
/// estimate.
TimeEstimate estimate_time(const std::vector<Job>&, const Stored&);
}  // namespace optrush
