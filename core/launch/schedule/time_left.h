#pragma once
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "optrush/spec.h"

namespace optrush {
/// What decides how long a run of an experiment takes.
struct Work {
  Purpose purpose = Purpose::measure;  ///< a drift run is one of the base
  int64_t variant = 0;
  int64_t steps = 0;  ///< warm-up included
  auto operator<=>(const Work&) const = default;
};
Work work_of(const RunSpec&);

/// Guesses how long jobs will take from those that are done: the same variant's, else the mean of its kind.
class TimeLeft {
 public:
  void done(const Work&, double seconds);
  /// None before anything comparable is done.
  std::optional<double> expected(const Work&) const;
  /// A job that has had `elapsed` seconds for `steps` steps; `before` are those of an earlier start.
  struct UnderWay {
    RunSpec spec;
    double elapsed = 0;
    int64_t steps = 0, before = 0;
  };
  /// Remaining time of the present runs and of `later`, which counts runs; none if one of them is unknown.
  std::optional<double> remaining(const std::vector<UnderWay>&, const std::map<Work, int64_t>& later) const;

 private:
  std::optional<double> mean_of(Purpose) const;

  using Kind = std::pair<Purpose, int64_t>;  ///< and variant
  struct Took {
    double seconds = 0;
    int64_t steps = 0;
  };
  std::map<Kind, Took> took_;
};
}  // namespace optrush
