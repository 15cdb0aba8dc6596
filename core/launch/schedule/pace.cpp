#include "launch/schedule/pace.h"

#include <algorithm>
#include <tuple>

namespace optrush {
namespace {
int64_t most_steps(const std::map<int64_t, RunCost>& costs) {
  int64_t most = 0;
  for (const auto& [variant, cost] : costs) most = std::max(most, cost.steps);
  return most;
}

double seconds_of_rounds(const PaceState& state, const std::map<int64_t, RunCost>& costs, int64_t steps) {
  double seconds = 0;
  for (const auto& [variant, cost] : costs) seconds += cost.seconds(steps);
  return seconds * static_cast<double>(state.rounds);
}

/// The largest number of steps, at least `fewest`, with which these variants fit; 0: none.
int64_t steps_that_fit(const PaceState& state, const std::map<int64_t, RunCost>& costs) {
  const auto fit = [&](int64_t steps) {
    return seconds_of_rounds(state, costs, steps) <= state.seconds_left;
  };
  int64_t high = most_steps(costs), low = std::min(state.fewest, high);
  if (fit(high)) return high;
  if (!fit(low)) return 0;
  while (high - low > 1) (fit((low + high) / 2) ? low : high) = (low + high) / 2;
  return low;
}

/// Sort key: variants with small values are left out first.
std::tuple<int, double> worth(const Row& row) {
  const auto& speed = row.base.speed;
  const double over_base = speed && !speed->same_run ? speed->value : 1;
  if (row.group == "alone") return {0, over_base};
  if (row.group == "without") return {1, -over_base};
  return {row.group == "full" ? 3 : 2, over_base};
}
}  // namespace

bool Pace::shortens(const PaceState& state) const {
  return fits && (!left_out.empty() || steps < most_steps(state.costs));
}

Pace pace_of(const PaceState& state) {
  std::map<int64_t, RunCost> costs = state.costs;
  const int64_t all = most_steps(costs);
  Pace pace{.steps = all, .left_out = {}, .fits = true, .seconds = seconds_of_rounds(state, costs, all)};
  auto next = state.leaves_first.begin();
  while (true) {
    if (const int64_t steps = steps_that_fit(state, costs); steps > 0 || costs.empty()) {
      pace.steps = steps;
      return pace;
    }
    while (next != state.leaves_first.end() && !costs.contains(*next)) ++next;
    if (costs.size() <= 2 || next == state.leaves_first.end()) break;
    costs.erase(*next);
    pace.left_out.push_back(*next++);
  }
  pace.left_out.clear();
  pace.fits = false;
  return pace;
}

std::vector<int64_t> leaving_order(const Analysis& a) {
  std::vector<const Row*> rows;
  for (const Row& row : a.rows)
    if (row.variant > 0 && row.ok() && row.same_as < 0) rows.push_back(&row);
  std::ranges::stable_sort(rows, {}, [](const Row* row) { return worth(*row); });
  std::vector<int64_t> order;
  for (const Row* row : rows) order.push_back(row->variant);
  return order;
}

std::map<int64_t, RunCost> run_costs(const Analysis& a) {
  std::map<int64_t, RunCost> costs;
  std::map<int64_t, int64_t> latest;
  for (const StoredRun& run : a.runs) {
    const RunResult& result = run.result;
    const int64_t variant = run.spec.variant;
    if (run.spec.purpose != Purpose::measure || !a.row(variant)->ok() || !result.step_seconds) continue;
    if (const auto known = latest.find(variant); known != latest.end() && known->second > run.spec.round)
      continue;
    latest[variant] = run.spec.round;
    const auto& train = run.spec.train;
    costs[variant] = {
        .start = result.start_seconds() + *result.step_seconds * static_cast<double>(train.warmup),
        .step = *result.step_seconds,
        .steps = train.steps};
  }
  return costs;
}
}  // namespace optrush
