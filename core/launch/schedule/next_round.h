#pragma once
#include <map>
#include <optional>
#include <vector>

#include "report/analysis/analysis.h"

namespace optrush {
/// Rounds of a pair before its interval may be narrow enough: a spread that was estimated from fewer is too
/// often too small by chance.
inline constexpr size_t kLeastRounds = 6;
/// The same of a race: what is far behind needs no good estimate.
inline constexpr size_t kLeastRoundsOfARace = 4;

/// Two variants whose ratio the report states.
struct Pair {
  int64_t subject = 0, reference = 0;
  size_t rounds = 0;                 ///< that both have
  std::optional<double> half_width;  ///< of the interval, in logarithms; none: there is none yet
  bool settled = false;              ///< in a race
};

/// State before a round.
struct RoundState {
  Until until;
  double seconds_left = 0;
  int64_t rounds = 0;  ///< that were run
  std::map<int64_t, double>
      seconds;  ///< that a run of each variant takes; without variants that cannot run again
  std::vector<Pair> pairs;
};

/// Which variants run in the next round, by index: those whose intervals are too wide, and what they are
/// compared with; the widest first where the time left is too short for all. Empty: there is no next round.
///
/// It uses the widths only and not the direction, so that stopping favours no verdict. The exception is a
/// race, whose only question is which is faster. Stopping at a spread that is small by chance adds errors;
/// the wider intervals of such an experiment compensate for them (standard_of).
std::vector<int64_t> next_round(const RoundState&);

/// The pairs of a report: each row that is ok with its previous one and with the base.
std::vector<Pair> pairs_of(const Analysis&);
}  // namespace optrush
