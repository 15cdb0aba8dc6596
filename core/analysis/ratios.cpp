// Ratios of speeds, the standard by which ratios are judged, and the time until there is a claim.
#include <algorithm>
#include <boost/math/special_functions/digamma.hpp>
#include <boost/math/special_functions/trigamma.hpp>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "analysis/analysis.h"
#include "base/number_text.h"

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

/// None if the two have no timed step in common.
std::optional<double> interleaved_ratio(const InterleavedSamples& subject,
                                        const InterleavedSamples& reference) {
  if (subject.group.empty() || subject.group != reference.group) return std::nullopt;
  std::vector<double> logs;
  auto other = reference.speed.begin();
  for (const auto& [step, speed] : subject.speed) {
    while (other != reference.speed.end() && other->first < step) ++other;
    if (other != reference.speed.end() && other->first == step)
      logs.push_back(std::log(speed) - std::log(other->second));
  }
  const auto middle = median(std::move(logs));
  return middle ? std::optional(std::exp(*middle)) : std::nullopt;
}

/// Every variant's latest measured run.
std::map<int64_t, const StoredRun*> latest_runs(const Analysis& a) {
  std::map<int64_t, const StoredRun*> latest;
  for (const StoredRun& run : a.runs) {
    if (run.spec.purpose != Purpose::measure || !run.result.ok()) continue;
    const StoredRun*& known = latest[run.spec.variant];
    if (known == nullptr || known->spec.round <= run.spec.round) known = &run;
  }
  return latest;
}

/// Of set-up, compilation and all steps.
double seconds_of(const StoredRun& run) {
  double sum = run.result.start_seconds();
  for (const StepResult& step : run.result.steps) sum += step.seconds;
  return sum;
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

InterleavedSamples interleaved(const RunResult& result) {
  InterleavedSamples round{result.turns, {}};
  if (result.turns.empty()) return round;
  // The documents in a step are random and differ between rungs, so the mean over all steps counts.
  double tokens = 0, steps = 0;
  const auto usable = [](const auto& step) { return step.timed && step.tokens > 0 && step.seconds > 0; };
  for (const auto& step : result.steps) {
    if (!usable(step)) continue;
    tokens += static_cast<double>(step.tokens);
    ++steps;
  }
  for (const auto& step : result.steps)
    if (usable(step)) round.speed.emplace_back(step.step, tokens / steps / step.seconds);
  std::ranges::sort(round.speed);
  return round;
}

std::optional<Ratio> paired_speed(const Row& subject, const Row& reference, const Standard& standard) {
  std::vector<double> mine, others, interleaved;
  for (size_t i = 0; i < subject.rounds.size(); ++i) {
    const auto it = std::ranges::find(reference.rounds, subject.rounds[i]);
    if (it == reference.rounds.end()) continue;
    const auto j = static_cast<size_t>(it - reference.rounds.begin());
    // Rows in tests may have only samples.
    const bool steps = i < subject.turns.size() && j < reference.turns.size();
    const auto ratio = steps ? interleaved_ratio(subject.turns[i], reference.turns[j]) : std::nullopt;
    if (ratio) interleaved.push_back(*ratio);
    mine.push_back(ratio ? *ratio : subject.samples[i]);
    others.push_back(ratio ? 1 : reference.samples[j]);
  }
  if (mine.empty()) return std::nullopt;
  // With enough interleaved rounds, the other rounds would only add noise.
  if (interleaved.size() >= kMinRounds)
    return paired_ratio(interleaved, std::vector<double>(interleaved.size(), 1), standard);
  return paired_ratio(mine, others, standard);
}

double seconds_to_claims(const Analysis& a) {
  std::map<int64_t, size_t> missing;
  const auto needs = [&](int64_t variant, size_t rounds) {
    size_t& most = missing[a.row(variant)->runs_of()];
    most = std::max(most, rounds);
  };
  for (const Row& row : a.rows)
    for (const Comparison* c : {&row.previous, &row.base}) {
      const size_t rounds = c->speed ? c->speed->rounds : 0;
      if (!row.ok() || c->variant < 0 || (c->speed && c->speed->same_run) || rounds >= kMinRounds) continue;
      needs(row.variant, kMinRounds - rounds);
      needs(c->variant, kMinRounds - rounds);
    }
  const auto latest = latest_runs(a);
  double sum = 0;
  for (const auto& [variant, rounds] : missing)
    if (const auto run = latest.find(variant); run != latest.end())
      sum += static_cast<double>(rounds) * seconds_of(*run->second);
  return sum;
}

std::string about_time(double seconds) {
  if (seconds <= 90) return "about " + fixed(std::max(1.0, std::ceil(seconds)), 0) + " s";
  if (seconds <= 90 * 60) return "about " + fixed(std::ceil(seconds / 60), 0) + " min";
  return "about " + fixed(std::ceil(seconds / 360) / 10, 1) + " h";
}
}  // namespace optrush
