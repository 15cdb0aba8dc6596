#pragma once
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

/// Two-sided 95 % confidence interval.
struct Interval {
  double low = 0, high = 0;
  bool contains(double value) const { return low <= value && value <= high; }
  bool operator==(const Interval&) const = default;
};

/// The standard by which a ratio is judged.
struct Standard {
  double error = 0.05;  ///< probability that a t interval misses, with a fixed number of rounds
  double alike = 0.05;  ///< the largest difference that still counts as none

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
/// deviation counts as at least kLeastSpread.
Ratio paired_ratio(const std::vector<double>& subject, const std::vector<double>& reference,
                   const Standard& = {});

/// The same from the log ratio of each round.
Ratio ratio_of_logs(const std::vector<double>& log_ratios, const Standard& = {});

/// Subject / reference of two machines or commits, whose rounds are not paired: Welch's t interval of the
/// logarithms.
Ratio unpaired_ratio(const std::vector<double>& subject, const std::vector<double>& reference,
                     const Standard& = {});
}  // namespace optrush
