#include "analysis/more_time.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/numbers/format.h"

namespace optrush {
namespace {
/// Seconds of every variant's latest measured run: set-up, compilation and all steps.
std::map<int64_t, double> seconds_of_latest(const Analysis& a) {
  std::map<int64_t, double> seconds;
  std::map<int64_t, int64_t> latest;
  for (const StoredRun& run : a.runs) {
    if (run.spec.purpose != Purpose::measure || run.result.status != Status::ok) continue;
    const int64_t variant = run.spec.variant;
    if (const auto known = latest.find(variant); known != latest.end() && known->second > run.spec.round)
      continue;
    latest[variant] = run.spec.round;
    double sum = run.result.start_seconds();
    for (const StepResult& step : run.result.steps) sum += step.seconds;
    seconds[variant] = sum;
  }
  return seconds;
}

/// Calls `act` with each comparison of two different runs.
void for_comparisons(const Row& row, auto&& act) {
  for (const Comparison* c : {&row.previous, &row.base})
    if (c->variant >= 0 && (!c->speed || !c->speed->same_run)) act(*c, c->speed ? c->speed->rounds : 0);
}
}  // namespace

double seconds_to_claims(const Analysis& a) {
  std::map<int64_t, size_t> missing;
  const auto needs = [&](int64_t variant, size_t rounds) {
    size_t& most = missing[a.row(variant)->runs_of()];
    most = std::max(most, rounds);
  };
  for (const Row& row : a.rows) {
    if (!row.ok()) continue;
    for_comparisons(row, [&](const Comparison& c, size_t rounds) {
      if (rounds >= kMinRounds) return;
      needs(row.variant, kMinRounds - rounds);
      needs(c.variant, kMinRounds - rounds);
    });
  }
  const auto seconds = seconds_of_latest(a);
  double sum = 0;
  for (const auto& [variant, rounds] : missing)
    if (const auto one = seconds.find(variant); one != seconds.end())
      sum += static_cast<double>(rounds) * one->second;
  return sum;
}

std::string about_time(double seconds) {
  if (seconds <= 90) return "about " + fixed(std::max(1.0, std::ceil(seconds)), 0) + " s";
  if (seconds <= 90 * 60) return "about " + fixed(std::ceil(seconds / 60), 0) + " min";
  return "about " + fixed(std::ceil(seconds / 360) / 10, 1) + " h";
}
}  // namespace optrush
