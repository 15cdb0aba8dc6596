#pragma once
#include <optional>
#include <vector>

namespace optrush {
/// Fewest rounds from which an interval, and so a claim, is made.
inline constexpr size_t kMinRounds = 3;

/// Middle value, or the mean of the two middle ones; empty input has none.
std::optional<double> median(std::vector<double>);

/// Two-sided 95 % confidence interval.
struct Interval {
  double low = 0, high = 0;
  bool contains(double value) const { return low <= value && value <= high; }
  bool operator==(const Interval&) const = default;
};

/// By what a ratio is judged.
struct Standard {
  double error = 0.05;  ///< chance that the t interval of a number of rounds chosen beforehand misses
  double alike = 0.05;  ///< the largest difference that may still be called none

  bool operator==(const Standard&) const = default;
};

/// A quotient of two positive measurements, with its interval where there are enough rounds.
struct Ratio {
  double value = 1;
  std::optional<Interval> interval;
  size_t rounds = 0;
  Standard standard = {};
  double degrees = 0;     ///< of freedom; 0: rounds - 1
  bool same_run = false;  ///< of a run and itself: 1 by its nature, and nothing to be claimed

  /// Enough rounds, and 1.00 is not among the plausible values.
  bool claim() const { return interval && !interval->contains(1.0); }
  double degrees_of_freedom() const;
  /// Of the logarithm of the value; only where there is an interval.
  double standard_error() const;
  bool operator==(const Ratio&) const = default;
};

/// Quantile of Student's t: half the width of an interval that misses with this two-sided `error`, in
/// standard errors.
double t_quantile(double degrees_of_freedom, double error = 0.05);

/// subject / reference of one round each, in pairs: geometric mean and paired t interval on the log ratios.
Ratio paired_ratio(const std::vector<double>& subject, const std::vector<double>& reference,
                   const Standard& = {});

/// The same of the logarithms of each round's ratio.
Ratio ratio_of_logs(const std::vector<double>& log_ratios, const Standard& = {});

/// subject / reference of two machines or commits, whose rounds have no partner: Welch's t interval on the
/// logs.
Ratio unpaired_ratio(const std::vector<double>& subject, const std::vector<double>& reference,
                     const Standard& = {});
}  // namespace optrush
