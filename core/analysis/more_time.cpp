#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/analysis.h"
#include "analysis/numbers/format.h"

namespace optrush {
namespace {
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
