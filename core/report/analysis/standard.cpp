#include "report/analysis/standard.h"

#include <algorithm>
#include <set>
#include <utility>

#include "report/analysis/analysis.h"

namespace optrush {
namespace {
/// Weight of the common variance. In a few rounds it decides, in many the variance of the pair itself
/// (docs/internals/verdicts.md has simulations).
constexpr double kMostCommonDegrees = 8;

/// The average variance of each row's pair with the previous row. Pairs that share a row are not independent,
/// so half of their degrees of freedom count, without those of one pair, which has its own variance.
CommonVariance common_variance(const Analysis& a) {
  double sum = 0, degrees = 0, pairs = 0;
  for (const Row& row : a.rows) {
    const auto& speed = row.previous.speed;
    if (row.same_as >= 0 || !speed || !speed->interval) continue;
    const double own = speed->degrees_of_freedom(), error = speed->standard_error();
    sum += own * error * error * static_cast<double>(speed->rounds);
    degrees += own;
    ++pairs;
  }
  if (pairs < 2) return {};
  return {sum / degrees, std::min(kMostCommonDegrees, degrees * (1 - 1 / pairs) / 2)};
}

/// Number of different pairs with an interval.
size_t count_intervals(const Analysis& a) {
  std::set<std::pair<int64_t, int64_t>> pairs;
  const auto add = [&](int64_t subject, int64_t reference, const std::optional<Ratio>& ratio) {
    if (ratio && ratio->interval)
      pairs.insert(std::minmax({a.row(subject)->runs_of(), a.row(reference)->runs_of()}));
  };
  for (const Row& row : a.rows)
    for (const Comparison* c : {&row.previous, &row.base}) add(row.variant, c->variant, c->speed);
  for (const ScalingSeries& series : a.scaling)
    for (const ScalingPoint& point : series.points)
      add(point.variant, series.points.front().variant, point.speedup);
  size_t count = pairs.size();
  for (const OtherProgram& program : a.programs) count += program.candidates;
  return count;
}
}  // namespace

Standard standard_of(const Experiment& experiment) {
  // Determined by simulation (tests/unit/next_round_test.cpp).
  return experiment.until ? Standard{.error = 0.02} : Standard{};
}

Standard standard_together(const Analysis& a) {
  Standard standard = standard_of(a.experiment);
  if (a.experiment.until && a.experiment.until->race) return standard;
  standard.intervals = std::max<size_t>(count_intervals(a), 1);
  standard.variance = common_variance(a);
  return standard;
}
}  // namespace optrush
