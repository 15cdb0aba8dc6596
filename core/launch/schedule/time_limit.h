#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/analysis.h"
#include "launch/schedule/schedule.h"

namespace optrush {
// How many rounds, rungs and steps an experiment with `until` gets. An experiment with a time limit ends with
// claims if kMinRounds rounds are possible at all (docs/guides/running.md). All functions are pure.

/// Fewest rounds of a pair before its interval counts as narrow: a spread estimated from fewer rounds is too
/// often small by chance.
inline constexpr size_t kLeastRounds = 6;
/// The same in a race, where a rung that is far behind needs no good estimate.
inline constexpr size_t kLeastRoundsOfARace = 4;

/// Two variants whose ratio the report states.
struct Pair {
  int64_t subject = 0, reference = 0;
  size_t rounds = 0;                 ///< rounds that both have
  std::optional<double> half_width;  ///< half width of the interval of the log ratio; none: no interval yet
  bool settled = false;              ///< decided in a race
};

struct RoundState {
  Until until;
  double seconds_left = 0;
  int64_t rounds = 0;  ///< number of finished rounds
  /// Seconds of a run by variant; without variants that can't run again.
  std::map<int64_t, double> seconds;
  std::vector<Pair> pairs;
};

/// The variants of the next round: those with intervals that are too wide, and their references; the widest
/// first if the time is too short for all. Empty: there is no next round.
///
/// It uses only widths and not directions, so that stopping favours no verdict. The exception is a race,
/// which only asks for the fastest. Stopping at a spread that is small by chance causes errors; the wider
/// intervals of such an experiment compensate for them (standard_of).
std::vector<int64_t> next_round(const RoundState&);

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

/// The duration of a run of each row that is ok, from its latest run. None is `whole`.
std::map<int64_t, RunCost> run_costs(const Analysis&);

/// The number of timed steps of the first round.
struct FirstRound {
  int64_t steps = 0;
  std::string note = {};  ///< for the user, if these are fewer than in the specs; "": they are not
};
/// Shortens the first round if three such rounds would exceed the limit, from the times of its runs until
/// they were ready. Runs keep enough steps for the check of a falling loss. `variants`: number of its runs;
/// `past`: seconds since the start of the limit.
FirstRound limit_first_round(const Experiment&, size_t variants, const std::map<int64_t, RunCost>&,
                             double past);

/// A round with its variants, none if there is no further round, and its limit. `before`: the round before,
/// with its wall time, which corrects the times that its runs report. `can_be_cut`: whether a variant's runs
/// can be shortened.
Round limited_round_after(const Round& before, const Analysis&, double past,
                          const std::function<bool(int64_t)>& can_be_cut);
}  // namespace optrush
