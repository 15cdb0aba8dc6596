#pragma once
#include <functional>
#include <map>
#include <string>

#include "launch/ledger/round.h"
#include "launch/schedule/pace.h"

namespace optrush {
// An experiment with a time limit ends with claims if kMinRounds rounds are possible at all
// (docs/guides/running.md). These pure functions shorten its runs and leave out rungs.

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
