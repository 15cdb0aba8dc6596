#pragma once
#include <algorithm>
#include <optional>
#include <vector>

namespace optrush {
/// Fewest rounds for an interval, and so for a claim.
inline constexpr size_t kMinRounds = 3;

/// Least standard deviation of a logarithm from round to round. Equal times are chance or a coarse clock, not
/// certainty: the pair of rungs in reports/ that varied least has about 0.0004.
inline constexpr double kLeastSpread = 0.0004;

/// The median; none for empty input.
std::optional<double> median(std::vector<double>);

/// Two-sided confidence interval; at 95 % for all intervals of a report together.
struct Interval {
  double low = 0, high = 0;
  bool contains(double value) const { return low <= value && value <= high; }
  bool operator==(const Interval&) const = default;
};

/// The variance of a log ratio from round to round, as the pairs of a report have it in common.
struct CommonVariance {
  double value = 0;
  double degrees = 0;  ///< degrees of freedom with which it counts beside a pair's own rounds; 0: none

  bool operator==(const CommonVariance&) const = default;
};

/// The standard by which the ratios of a report are judged.
struct Standard {
  double error = 0.05;   ///< probability that any of the intervals misses, with a fixed number of rounds
  double alike = 0.05;   ///< the largest difference that still counts as none
  size_t intervals = 1;  ///< number of intervals that hold together (Bonferroni)
  CommonVariance variance = {};

  /// Probability that one interval misses.
  double error_of_one() const { return error / static_cast<double>(std::max<size_t>(intervals, 1)); }

  bool operator==(const Standard&) const = default;
};

/// A quotient of two positive measurements, with an interval if there are enough rounds.
struct Ratio {
  double value = 1;
  std::optional<Interval> interval;
  size_t rounds = 0;
  Standard standard = {};
  double degrees = 0;     ///< degrees of freedom; 0: rounds - 1
  bool same_run = false;  ///< the ratio of a run to itself, which is 1 and makes no claim

  /// Whether there is an interval and it does not contain 1.
  bool claim() const { return interval && !interval->contains(1.0); }
  double degrees_of_freedom() const;
  /// Standard error of the logarithm; requires an interval.
  double standard_error() const;
  bool operator==(const Ratio&) const = default;
};

/// Quantile of Student's t: the half width, in standard errors, of an interval with this two-sided `error`.
double t_quantile(double degrees_of_freedom, double error = 0.05);

/// Subject / reference, paired by round: geometric mean and paired t interval of log ratios, whose standard
/// deviation counts as at least kLeastSpread. Their variance is averaged with Standard::variance, each with
/// the weight of its degrees of freedom.
Ratio paired_ratio(const std::vector<double>& subject, const std::vector<double>& reference,
                   const Standard& = {});

/// The same from the log ratio of each round.
Ratio ratio_of_logs(const std::vector<double>& log_ratios, const Standard& = {});

/// Subject / reference of two machines, commits or days, whose rounds are not paired: Welch's t interval of
/// the logarithms. `between`: the known variance of what else changes from one to the other.
Ratio unpaired_ratio(const std::vector<double>& subject, const std::vector<double>& reference,
                     const Standard& = {}, double between = 0);

/// The quotient of two independent ratios that have intervals.
Ratio quotient(const Ratio& subject, const Ratio& reference, const Standard& = {});
}  // namespace optrush
