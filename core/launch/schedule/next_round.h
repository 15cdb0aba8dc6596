#pragma once
#include <map>
#include <optional>
#include <vector>

#include "analysis/analysis.h"

namespace optrush {
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

/// The pairs of a report: each row that is ok with its previous row and with the base.
std::vector<Pair> pairs_of(const Analysis&);
}  // namespace optrush
