#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "launch/execution.h"
#include "launch/progress.h"
#include "launch/schedule/next_round.h"
#include "launch/schedule/pace.h"

namespace optrush {
/// Chooses the next runs of an experiment with a time limit, so that it ends with claims where the limit
/// holds kMinRounds rounds at all (docs/guides/running.md). Without a limit nothing is cut.
class TimeLimit {
 public:
  /// `variants`: that run in the first round.
  TimeLimit(const Experiment&, size_t variants, Progress&, std::chrono::steady_clock::time_point start);

  /// Round 1 is cut where three like it would take longer than the limit: by what its first runs took until
  /// they were ready. Runs keep enough steps for a falling loss to be asked of them.
  Pacer of_first_round();
  /// A round that was begun by an earlier start: as many steps as its stored runs, else as those before.
  Pacer of_begun_round() const;
  /// The round that next() has chosen.
  Pacer of_next_round() const;

  /// Which variants run in the next round; none: there is none. `can_be_cut` is asked of variants.
  std::vector<int64_t> next(const Analysis&, int64_t round, const std::function<bool(int64_t)>& can_be_cut);

  /// Wall time of the round, to correct what its runs tell of themselves.
  void round_took(const std::optional<double>& seconds);

  /// Whether runs were cut, or variants left out: the base then does not run once more for its drift.
  bool is_tight() const { return tight_; }

 private:
  double seconds_left() const;
  void tell(const Pace&, const PaceState&, const Analysis&, int64_t round);

  const Experiment& experiment_;
  const size_t variants_;
  Progress& progress_;
  const std::chrono::steady_clock::time_point start_;
  std::optional<double> took_;    ///< the last round
  double slower_ = 1;             ///< than the sum of what the runs of a round measured of themselves
  std::vector<int64_t> last_;     ///< that ran in it; empty: all
  std::optional<int64_t> steps_;  ///< of the rounds to come; none: all
  std::set<int64_t> left_out_;
  bool tight_ = false, told_ = false;
};
}  // namespace optrush
