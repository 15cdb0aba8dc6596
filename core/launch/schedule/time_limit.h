#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "launch/ledger/round.h"
#include "launch/schedule/pace.h"

namespace optrush {
// An experiment with a time limit ends with claims if kMinRounds rounds are possible at all
// (docs/guides/running.md). These pure functions shorten its runs and leave out rungs.

/// The number of timed steps of the first round.
struct FirstRound {
  int64_t steps = 0;
  bool tight = false;  ///< fewer than in the specs
  std::string note;    ///< for the user, if it is tight
};
/// Shortens the first round if three such rounds would exceed the limit, from the times of its runs until
/// they were ready. Runs keep enough steps for the check of a falling loss. `variants`: number of its runs;
/// `past`: seconds since the start of the limit.
FirstRound limit_first_round(const Experiment&, size_t variants, const std::map<int64_t, RunCost>&,
                             double past);

/// The variants of a round, none if there is no further round, and the limit for it and later rounds.
struct NextRound {
  std::vector<int64_t> variants;
  Limit limit;
  std::string note;  ///< for the user; "": none
};
/// `before`: the round before, with its wall time, which corrects the times that its runs report.
/// `can_be_cut`: whether a variant's runs can be shortened.
NextRound limit_next_round(const Analysis&, const Round& before, double past,
                           const std::function<bool(int64_t)>& can_be_cut);
}  // namespace optrush
