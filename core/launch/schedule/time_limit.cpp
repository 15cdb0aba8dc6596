#include "launch/schedule/time_limit.h"

#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include "base/number_text.h"
#include "base/text.h"

namespace optrush {
namespace {
bool narrow(const Pair& pair, const Until& until) {
  if (pair.settled && pair.rounds >= kLeastRoundsOfARace) return true;
  return pair.rounds >= kLeastRounds && pair.half_width && *pair.half_width <= until.within;
}

double width_of(const Pair& pair) {
  return pair.half_width.value_or(std::numeric_limits<double>::infinity());
}

Pair pair_of(const Analysis& a, const Row& row, const Comparison& comparison) {
  const Row& reference = *a.row(comparison.variant);
  Pair pair{row.runs_of(), reference.runs_of(), comparison.speed->rounds, std::nullopt};
  if (const auto& interval = comparison.speed->interval) {
    pair.half_width = std::log(interval->high / interval->low) / 2;
    const auto& until = a.experiment.until;
    pair.settled = until && until->race && (interval->low > 1 || std::log(interval->high) < until->within);
  }
  return pair;
}

/// The pairs of a report: each row that is ok with its previous row and with the base.
std::vector<Pair> pairs_of(const Analysis& a) {
  std::vector<Pair> pairs;
  for (const Row& row : a.rows) {
    if (!row.ok()) continue;
    const auto compares = [](const Comparison& c) { return c.speed && !c.speed->same_run; };
    if (compares(row.previous)) pairs.push_back(pair_of(a, row, row.previous));
    if (compares(row.base) && row.base.variant != row.previous.variant)
      pairs.push_back(pair_of(a, row, row.base));
  }
  return pairs;
}

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

/// The order in which variants are left out, from the rounds so far: the slowest rows relative to the base
/// first. In an ablation, the rows of one rung alone are left out before other rows, then stacks that lose
/// least without their rung; the full stack is last.
std::vector<int64_t> leaving_order(const Analysis& a) {
  std::vector<const Row*> rows;
  for (const Row& row : a.rows)
    if (row.variant > 0 && row.ok() && row.same_as < 0) rows.push_back(&row);
  std::ranges::stable_sort(rows, {}, [](const Row* row) { return worth(*row); });
  std::vector<int64_t> order;
  for (const Row* row : rows) order.push_back(row->variant);
  return order;
}

/// Share of the remaining time that is planned, because rounds differ.
constexpr double kShareOfLimit = 0.95;
/// A round that can be longer than the one before takes half of the gain while more rounds are required: the
/// machine can become slower again.
constexpr int64_t kGainDivisor = 2;

/// Enough steps for the gate to require a falling loss.
int64_t fewest_of_first_round(const TrainSpec& train) {
  return std::max(kFewestSteps, static_cast<int64_t>(kStepsForAFall) - train.warmup);
}

/// The times of runs, corrected by the wall time of the round before.
std::map<int64_t, RunCost> corrected_costs(const Analysis& a, const Round& before, Limit& limit,
                                           const std::function<bool(int64_t)>& can_be_cut) {
  std::map<int64_t, RunCost> costs = run_costs(a);
  if (before.seconds) {
    double expected = 0;
    for (const Job& job : before.jobs)
      if (const auto cost = costs.find(job.spec.variant); cost != costs.end())
        expected += cost->second.seconds(limit.steps.value_or(cost->second.steps));
    if (expected > 0) limit.slower = std::max(1.0, *before.seconds / expected);
  }
  for (auto& [variant, cost] : costs) {
    cost.start *= limit.slower;
    cost.step *= limit.slower;
    cost.whole = !can_be_cut(variant);
  }
  return costs;
}

/// What the user is told about the first decision that shortens an experiment; "" if nothing is shortened.
std::string note_of(const Pace& pace, const PaceState& state, const Analysis& a, int64_t round, double left) {
  const std::string more = counted(state.rounds, "more round");
  std::string text = more + " would take about " + duration(pace.seconds) + ", but only " +
                     duration(std::max(0.0, left)) + " are left. ";
  if (!pace.fits)
    return text + "Fewer than two rungs can get " + std::to_string(kMinRounds) +
           " rounds, so no comparison will be decided. Continue with --resume and a longer --at-most";
  if (!pace.shortens(state)) return "";
  text +=
      "From round " + std::to_string(round + 1) + " on, runs are shortened to " + counted(pace.steps, "step");
  std::vector<std::string> names;
  for (const int64_t variant : pace.left_out) names.push_back(a.row(variant)->name);
  return names.empty() ? text : text + ". These rungs are left out: " + join(names);
}
}  // namespace

std::vector<int64_t> next_round(const RoundState& state) {
  if (state.rounds >= kMostRounds) return {};
  std::vector<Pair> wide = state.pairs;
  std::erase_if(wide, [&](const Pair& pair) {
    return narrow(pair, state.until) || !state.seconds.contains(pair.subject) ||
           !state.seconds.contains(pair.reference);
  });
  std::ranges::stable_sort(wide, std::greater{}, width_of);
  std::set<int64_t> chosen;
  double left = state.seconds_left;
  for (const Pair& pair : wide) {
    double needed = 0;
    for (const int64_t variant : {pair.subject, pair.reference})
      if (!chosen.contains(variant)) needed += state.seconds.at(variant);
    if (needed > left) continue;
    left -= needed;
    chosen.insert({pair.subject, pair.reference});
  }
  return {chosen.begin(), chosen.end()};
}

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

FirstRound limit_first_round(const Experiment& experiment, size_t variants,
                             const std::map<int64_t, RunCost>& known, double past) {
  // Unknown variants are assumed to be like the known ones.
  PaceState state{.seconds_left = kShareOfLimit * (experiment.until->at_most_s - past),
                  .rounds = static_cast<int64_t>(kMinRounds),
                  .fewest = fewest_of_first_round(experiment.base.train),
                  .costs = known,
                  .leaves_first = {}};
  const double more =
      static_cast<double>(std::max(variants, known.size())) / static_cast<double>(known.size());
  int64_t all = 0;
  for (auto& [variant, cost] : state.costs) {
    all = std::max(all, cost.steps);
    state.seconds_left += cost.start;  // already spent
    cost.start *= more;
    cost.step *= more;
  }
  Pace pace = pace_of(state);
  if (!pace.fits) pace.steps = std::min(pace.steps, state.fewest);
  if (pace.steps >= all) return {all};
  return {pace.steps, "three rounds of " + counted(all, "step") + " would take about " +
                          duration(pace.seconds) + ", but the limit is " +
                          duration(experiment.until->at_most_s) +
                          "; the runs of this round are shortened to " + counted(pace.steps, "step")};
}

Round limited_round_after(const Round& before, const Analysis& now, double past,
                          const std::function<bool(int64_t)>& can_be_cut) {
  const Until& until = *now.experiment.until;
  const double left = until.at_most_s - past;
  Round next{.number = before.number + 1, .limit = before.limit};
  Limit& limit = next.limit;
  std::map<int64_t, RunCost> costs = corrected_costs(now, before, limit, can_be_cut);
  RoundState state{until, left, next.number, {}, pairs_of(now)};
  const auto leave_out = [&] {
    std::erase_if(state.pairs, [&](const Pair& pair) {
      return limit.left_out.contains(pair.subject) || limit.left_out.contains(pair.reference);
    });
  };
  leave_out();
  for (const int64_t variant : limit.left_out) costs.erase(variant);
  const size_t least =
      state.pairs.empty() ? kMinRounds : std::ranges::min(state.pairs, {}, &Pair::rounds).rounds;
  if (const auto base = costs.find(0); base != costs.end() && !limit.tight)
    state.seconds_left -= base->second.seconds(base->second.steps);  // it runs again at the end
  if (least < kMinRounds) {
    const PaceState wanted{.seconds_left = kShareOfLimit * state.seconds_left,
                           .rounds = static_cast<int64_t>(kMinRounds - least),
                           .costs = costs,
                           .leaves_first = leaving_order(now)};
    PaceState without_drift = wanted;
    without_drift.seconds_left = kShareOfLimit * left;
    Pace pace = pace_of(wanted);
    if (pace.shortens(wanted) || !pace.fits) {
      limit.tight = true;
      state.seconds_left = left;
      pace = pace_of(without_drift);
    }
    if (pace.fits) {
      const int64_t steps_before = limit.steps.value_or(pace.steps);
      limit.steps.reset();
      if (pace.shortens(without_drift)) limit.steps = pace.steps;
      if (steps_before < pace.steps && wanted.rounds > 1)
        limit.steps = steps_before + (pace.steps - steps_before) / kGainDivisor;
      limit.left_out.insert(pace.left_out.begin(), pace.left_out.end());
      leave_out();
    }
    if (limit.tight && !limit.noted) next.note = note_of(pace, without_drift, now, next.number, left);
    limit.noted = limit.noted || limit.tight;
  }
  if (until.enough_s > 0 && least >= kMinRounds)
    state.seconds_left = std::min(state.seconds_left, until.enough_s - past);
  for (const auto& [variant, cost] : costs)
    if (!limit.left_out.contains(variant))
      state.seconds[variant] = cost.seconds(limit.steps.value_or(cost.steps));
  next.variants = next_round(state);
  next.steps = limit.steps;
  next.paced = next.steps.has_value();
  return next;
}
}  // namespace optrush
