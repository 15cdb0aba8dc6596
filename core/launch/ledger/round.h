#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launch/schedule/schedule.h"

namespace optrush {
/// What a time limit has decided. It holds for the round and for later ones.
struct Limit {
  std::optional<int64_t> steps;  ///< most timed steps of a run; none: all of its spec
  std::set<int64_t> left_out;    ///< variants without further runs
  double slower = 1;             ///< wall time of a round / sum of the times of its runs
  bool tight = false;  ///< runs are shortened or variants left out: the base does not run again at the end
  bool noted = false;  ///< the user knows why
};

/// A round: the decisions about it, and its progress.
struct Round {
  int64_t number = 0;
  bool over = false;                   ///< there is no such round: only the base runs again at the end
  std::vector<int64_t> variants = {};  ///< those that are chosen for it; empty: all
  std::vector<Job> jobs = {};          ///< in the order of the script
  std::vector<Job> interleaved = {};   ///< those that run step by step with each other
  /// Whether `steps` limits its runs. If `steps` is then none, it follows from the times of its first runs.
  bool paced = false;
  std::optional<int64_t> steps = {};  ///< most timed steps of a run
  Limit limit = {};
  std::string note = {};  ///< of the limit, for the user; "": none

  bool begun_before = false;           ///< an earlier start began it
  bool any = false;                    ///< not all of its runs were stored
  bool interleaving_done = false;      ///< the interleaved runs have ended
  bool ended = false;                  ///< all of its runs have ended
  bool checked = false;                ///< the gate has checked the rows after it
  std::optional<double> seconds = {};  ///< its wall time; none: not known, or not of all its runs
};
}  // namespace optrush
