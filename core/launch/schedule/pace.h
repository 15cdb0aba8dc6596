#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "report/analysis/analysis.h"

namespace optrush {
/// Fewest timed steps of a run that is cut to fit into a time limit, or that counts after an interrupt.
inline constexpr int64_t kFewestSteps = 4;

/// Duration of a run of one variant, in seconds.
struct RunCost {
  double start = 0;  ///< until its first timed step: process, set-up, compilation, warm-up
  double step = 0;
  int64_t steps = 0;   ///< timed ones that its spec asks for
  bool whole = false;  ///< it can't be cut: it makes all of them

  /// With no more than so many steps.
  double seconds(int64_t most) const {
    return start + step * static_cast<double>(whole ? steps : std::min(steps, most));
  }
};

/// State before a round of an experiment with a time limit.
struct PaceState {
  double seconds_left = 0;
  int64_t rounds = 0;                 ///< that are missing until there are kMinRounds; 1 at least
  int64_t fewest = kFewestSteps;      ///< steps of a run
  std::map<int64_t, RunCost> costs;   ///< by variant; 0 is the base
  std::vector<int64_t> leaves_first;  ///< in which order variants are left out; without the base
};

/// How the rounds to come are run.
struct Pace {
  int64_t steps = 0;              ///< at most, of each run: all runs of a round make equally many
  std::vector<int64_t> left_out;  ///< variants that run no more
  bool fits = true;    ///< false: not even the base and one more fit, with the fewest steps; nothing is cut
  double seconds = 0;  ///< that those rounds would take as the script asks for them

  bool shortens(const PaceState&) const;
};

/// The rule for a time limit that does not hold the missing rounds: fewer steps a run, down to `fewest`; then
/// fewer variants, those of `leaves_first` first, and of the rest as many steps as fit.
Pace pace_of(const PaceState&);

/// By what the rounds so far saw: the rows that are slowest against the base first. Of an ablation, the rungs
/// alone go before its other rows, then the stacks that lose least by what they lack; the full stack is last.
std::vector<int64_t> leaving_order(const Analysis&);

/// Duration of a run of each row that is ok, by its latest run. None of them is `whole`.
std::map<int64_t, RunCost> run_costs(const Analysis&);
}  // namespace optrush
