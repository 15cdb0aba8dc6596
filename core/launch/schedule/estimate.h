#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "launch/schedule/schedule.h"
#include "results/stored.h"

namespace optrush {
/// How long runs will take, by those of the same spec that a report holds.
struct TimeEstimate {
  double seconds = 0;  ///< of the runs that are known
  size_t known = 0, all = 0;
};

/// A stored run counts for a job where their specs differ in nothing but round, purpose, place and number of
/// steps: what it took to start and to compile, and its step times theirs. Nothing is guessed for others.
TimeEstimate estimate_time(const std::vector<Job>&, const Stored&);
}  // namespace optrush
