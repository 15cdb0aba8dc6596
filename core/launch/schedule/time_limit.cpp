#include "launch/schedule/time_limit.h"

#include <algorithm>

#include "base/number_text.h"
#include "base/text.h"
#include "launch/schedule/next_round.h"

namespace optrush {
namespace {
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
