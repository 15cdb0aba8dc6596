#include <algorithm>
#include <boost/math/special_functions/digamma.hpp>
#include <boost/math/special_functions/trigamma.hpp>
#include <cmath>
#include <set>
#include <tuple>

#include "analysis/analysis.h"

namespace optrush {
namespace {
/// Largest weight of the common variance. In a few rounds it decides, in many the variance of the pair itself
/// (docs/internals/verdicts.md has simulations).
constexpr double kMostCommonDegrees = 6;

/// The degrees of freedom of the common variance, from the scatter of the pairs' variances that their few
/// rounds do not explain: trigamma(degrees / 2) = scatter.
double common_degrees(double scatter) {
  constexpr double kMost = 1000, kExact = 1e-3;  // with more, the variances are equal
  double low = 0, high = kMost;
  while (high - low > kExact) {
    const double middle = (low + high) / 2;
    (boost::math::trigamma(middle / 2) > scatter ? low : high) = middle;
  }
  return high;
}

/// The variance that the pairs of each row and the previous one have in common: moderated variances of Smyth
/// (2004), "Linear models and empirical Bayes methods", section 6.2. The more the variances of the pairs
/// differ, the less it counts. Pairs that share a row are not independent, so at most half of the
/// degrees of freedom of the other pairs count.
CommonVariance common_variance(const Analysis& a, Quotient of) {
  std::vector<double> logs;
  double degrees = 0, explained = 0, mean = 0, scatter = 0;
  for (const Row& row : a.rows) {
    const auto& ratio = row.previous.*of;
    if (row.same_as >= 0 || !ratio || !ratio->interval) continue;
    const double own = ratio->degrees_of_freedom(), error = ratio->standard_error();
    logs.push_back(std::log(error * error * static_cast<double>(ratio->rounds)) -
                   boost::math::digamma(own / 2) + std::log(own / 2));
    degrees += own;
    explained += boost::math::trigamma(own / 2);
  }
  const auto pairs = static_cast<double>(logs.size());
  if (pairs < 2) return {};
  for (const double log : logs) mean += log / pairs;
  for (const double log : logs) scatter += (log - mean) * (log - mean) / (pairs - 1);
  const double common = common_degrees(scatter - explained / pairs);
  const double value = std::exp(mean + boost::math::digamma(common / 2) - std::log(common / 2));
  return {value, std::min({kMostCommonDegrees, common, degrees * (1 - 1 / pairs) / 2})};
}

/// Number of different pairs with an interval, of speeds, of times to a loss and of losses.
size_t count_intervals(const Analysis& a) {
  std::set<std::tuple<int, int64_t, int64_t>> pairs;
  const auto add = [&](int kind, int64_t subject, int64_t reference, const std::optional<Ratio>& ratio) {
    if (!ratio || !ratio->interval) return;
    const auto [one, other] = std::minmax({a.row(subject)->runs_of(), a.row(reference)->runs_of()});
    pairs.emplace(kind, one, other);
  };
  for (const Row& row : a.rows)
    for (const Comparison* c : {&row.previous, &row.base}) {
      add(0, row.variant, c->variant, c->speed);
      add(1, row.variant, c->variant, c->time_to_loss);
      add(2, row.variant, c->variant, c->perplexity);
    }
  for (const ScalingSeries& series : a.scaling)
    for (const ScalingPoint& point : series.points)
      add(0, point.variant, series.points.front().variant, point.speedup);
  size_t count = pairs.size();
  for (const OtherProgram& program : a.programs) count += program.candidates;
  return count;
}
}  // namespace

Standard standard_of(const Experiment& experiment) {
  // Determined by simulation (tests/unit/next_round_test.cpp).
  return experiment.until ? Standard{.error = 0.02} : Standard{};
}

Standard standard_together(const Analysis& a, Quotient of) {
  Standard standard = standard_of(a.experiment);
  if (a.experiment.until && a.experiment.until->race) return standard;
  standard.intervals = std::max<size_t>(count_intervals(a), 1);
  standard.variance = common_variance(a, of);
  return standard;
}
}  // namespace optrush
