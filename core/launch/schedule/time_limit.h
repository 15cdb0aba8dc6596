#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "launch/execution.h"
#include "launch/progress.h"
#include "launch/schedule/pace.h"

namespace optrush {
/// Selects the next runs of an experiment with a time limit, so that it ends with claims if kMinRounds rounds
/// are possible at all (docs/guides/running.md). Without a limit nothing is shortened.
class TimeLimit {
 public:
  /// `variants`: number of variants in the first round.
  TimeLimit(const Experiment&, size_t variants, Progress&, std::chrono::steady_clock::time_point start);

  /// Shortens the first round if three such rounds would exceed the limit, from the times of its runs until
  /// they were ready. Runs keep enough steps for the check of a falling loss.
  Pacer of_first_round();
  /// For a round that an earlier start began: as many steps as its stored runs, otherwise as the round
  /// before.
  Pacer of_begun_round() const;
  /// For the round that next() has selected.
  Pacer of_next_round() const;

  /// The variants of the next round; empty: there is none. `can_be_cut`: whether a variant's runs can be
  /// shortened.
  std::vector<int64_t> next(const Analysis&, int64_t round, const std::function<bool(int64_t)>& can_be_cut);

  /// The wall time of a round, to correct the times that its runs report.
  void round_took(const std::optional<double>& seconds);

  /// Whether runs were shortened or variants left out: then the base does not run again at the end.
  bool is_tight() const { return tight_; }

 private:
  double seconds_left() const;
  void tell(const Pace&, const PaceState&, const Analysis&, int64_t round);

  const Experiment& experiment_;
  const size_t variants_;
  Progress& progress_;
  const std::chrono::steady_clock::time_point start_;
  std::optional<double> took_;    ///< seconds of the last round
  double slower_ = 1;             ///< wall time of a round / sum of the times of its runs
  std::vector<int64_t> last_;     ///< variants of the last round; empty: all
  std::optional<int64_t> steps_;  ///< steps of the remaining rounds; none: all
  std::set<int64_t> left_out_;
  bool tight_ = false, told_ = false;
};
}  // namespace optrush
