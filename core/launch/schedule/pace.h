#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "analysis/analysis.h"

namespace optrush {
/// Fewest timed steps of a run that is shortened for a time limit, or that counts after an interrupt.
inline constexpr int64_t kFewestSteps = 4;

/// The duration of a run of one variant, in seconds.
struct RunCost {
  double start = 0;  ///< until its first timed step: process start, set-up, compilation, warm-up
  double step = 0;
  int64_t steps = 0;   ///< number of timed steps in its spec
  bool whole = false;  ///< it can't be shortened

  /// Seconds with at most `most` steps.
  double seconds(int64_t most) const {
    return start + step * static_cast<double>(whole ? steps : std::min(steps, most));
  }
};

struct PaceState {
  double seconds_left = 0;
  int64_t rounds = 0;                 ///< rounds missing to kMinRounds; at least 1
  int64_t fewest = kFewestSteps;      ///< fewest steps of a run
  std::map<int64_t, RunCost> costs;   ///< by variant; 0 is the base
  std::vector<int64_t> leaves_first;  ///< variants in the order in which they are left out; without the base
};

struct Pace {
  int64_t steps = 0;              ///< maximum per run; all runs of a round make the same number
  std::vector<int64_t> left_out;  ///< variants without further runs
  /// false: not even the base and one variant fit with the fewest steps; then nothing is shortened
  bool fits = true;
  double seconds = 0;  ///< seconds of those rounds without shortening

  bool shortens(const PaceState&) const;
};

/// The rule if the missing rounds exceed the time limit: fewer steps per run, down to `fewest`. If that is
/// not enough, fewer variants in the order of `leaves_first`, and as many steps for the others as fit.
Pace pace_of(const PaceState&);

/// The order in which variants are left out, from the rounds so far: the slowest rows relative to the base
/// first. In an ablation, the rows of one rung alone are left out before other rows, then stacks that lose
/// least without their rung; the full stack is last.
std::vector<int64_t> leaving_order(const Analysis&);

/// The duration of a run of each row that is ok, from its latest run. None is `whole`.
std::map<int64_t, RunCost> run_costs(const Analysis&);
}  // namespace optrush
