#include "launch/schedule/time_limit.h"

#include <algorithm>
#include <limits>

#include "base/number_text.h"
#include "base/seconds_since.h"
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

size_t rounds_of_pair(const Pair& pair) { return pair.rounds; }
}  // namespace

TimeLimit::TimeLimit(const Experiment& experiment, size_t variants, Progress& progress,
                     std::chrono::steady_clock::time_point start)
    : experiment_(experiment), variants_(variants), progress_(progress), start_(start) {}

double TimeLimit::seconds_left() const { return experiment_.until->at_most_s - seconds_since(start_); }

Pacer TimeLimit::of_first_round() {
  // A shortened round would end with another validation.
  if (!experiment_.until || experiment_.base.validate.every > 0) return {};
  return [this](const std::map<int64_t, RunCost>& known) {
    // Unknown variants are assumed to be like the known ones.
    PaceState state{.seconds_left = kShareOfLimit * seconds_left(),
                    .rounds = static_cast<int64_t>(kMinRounds),
                    .fewest = fewest_of_first_round(experiment_.base.train),
                    .costs = known,
                    .leaves_first = {}};
    const double more =
        static_cast<double>(std::max(variants_, known.size())) / static_cast<double>(known.size());
    for (auto& [variant, cost] : state.costs) {
      state.seconds_left += cost.start;  // already spent
      cost.start *= more;
      cost.step *= more;
    }
    Pace pace = pace_of(state);
    if (!pace.fits) pace.steps = std::min(pace.steps, state.fewest);
    int64_t all = 0;
    for (const auto& [variant, cost] : known) all = std::max(all, cost.steps);
    if (pace.steps >= all) return all;
    tight_ = true;
    steps_ = pace.steps;
    progress_.note("three rounds of " + counted(all, "step") + " would take about " + duration(pace.seconds) +
                       ", but the limit is " + duration(experiment_.until->at_most_s) +
                       "; the runs of this round are shortened to " + counted(pace.steps, "step"),
                   Colour::yellow);
    return pace.steps;
  };
}

Pacer TimeLimit::of_begun_round() const {
  return [steps = steps_.value_or(std::numeric_limits<int64_t>::max())](const auto&) { return steps; };
}

Pacer TimeLimit::of_next_round() const { return steps_ ? of_begun_round() : Pacer(); }

std::vector<int64_t> TimeLimit::next(const Analysis& now, int64_t round,
                                     const std::function<bool(int64_t)>& can_be_cut) {
  std::map<int64_t, RunCost> costs = run_costs(now);
  if (took_) {
    double expected = 0;
    for (const auto& [variant, cost] : costs)
      if (last_.empty() || std::ranges::count(last_, variant) > 0)
        expected += cost.seconds(steps_.value_or(cost.steps));
    if (expected > 0) slower_ = std::max(1.0, *took_ / expected);
  }
  for (auto& [variant, cost] : costs) {
    cost.start *= slower_;
    cost.step *= slower_;
    cost.whole = !can_be_cut(variant);
  }
  RoundState state{*experiment_.until, seconds_left(), round, {}, pairs_of(now)};
  std::erase_if(state.pairs, [&](const Pair& pair) {
    return left_out_.contains(pair.subject) || left_out_.contains(pair.reference);
  });
  for (const int64_t variant : left_out_) costs.erase(variant);
  const size_t least =
      state.pairs.empty() ? kMinRounds : std::ranges::min(state.pairs, {}, rounds_of_pair).rounds;
  if (const auto base = costs.find(0); base != costs.end() && !tight_)
    state.seconds_left -= base->second.seconds(base->second.steps);  // it runs again at the end
  if (least < kMinRounds) {
    const PaceState wanted{.seconds_left = kShareOfLimit * state.seconds_left,
                           .rounds = static_cast<int64_t>(kMinRounds - least),
                           .costs = costs,
                           .leaves_first = leaving_order(now)};
    PaceState without_drift = wanted;
    without_drift.seconds_left = kShareOfLimit * seconds_left();
    Pace pace = pace_of(wanted);
    if (pace.shortens(wanted) || !pace.fits) {
      tight_ = true;
      state.seconds_left = seconds_left();
      pace = pace_of(without_drift);
    }
    if (pace.fits) {
      const int64_t before = steps_.value_or(pace.steps);
      steps_.reset();
      if (pace.shortens(without_drift)) steps_ = pace.steps;
      if (before < pace.steps && wanted.rounds > 1) steps_ = before + (pace.steps - before) / kGainDivisor;
      left_out_.insert(pace.left_out.begin(), pace.left_out.end());
      std::erase_if(state.pairs, [&](const Pair& pair) {
        return left_out_.contains(pair.subject) || left_out_.contains(pair.reference);
      });
    }
    if (tight_) tell(pace, without_drift, now, round);
  }
  if (const double enough = experiment_.until->enough_s; enough > 0 && least >= kMinRounds)
    state.seconds_left = std::min(state.seconds_left, enough - seconds_since(start_));
  for (const auto& [variant, cost] : costs)
    if (!left_out_.contains(variant)) state.seconds[variant] = cost.seconds(steps_.value_or(cost.steps));
  last_ = next_round(state);
  return last_;
}

void TimeLimit::round_took(const std::optional<double>& seconds) { took_ = seconds; }

void TimeLimit::tell(const Pace& pace, const PaceState& state, const Analysis& a, int64_t round) {
  if (told_) return;
  told_ = true;
  const std::string left = duration(std::max(0.0, seconds_left()));
  const std::string more = counted(state.rounds, "more round");
  if (!pace.fits)
    return progress_.note(
        more + " would take about " + duration(pace.seconds) + ", but only " + left +
            " are left. Fewer than two rungs can get " + std::to_string(kMinRounds) +
            " rounds, so no comparison will be decided. Continue with --resume and a longer --at-most",
        Colour::yellow);
  if (!pace.shortens(state)) return;
  std::string text = more + " would take about " + duration(pace.seconds) + ", but only " + left +
                     " are left. From round " + std::to_string(round + 1) + " on, runs are shortened to " +
                     counted(pace.steps, "step");
  std::vector<std::string> names;
  for (const int64_t variant : pace.left_out) names.push_back(a.row(variant)->name);
  if (!names.empty()) text += ". These rungs are left out: " + join(names);
  progress_.note(text, Colour::yellow);
}
}  // namespace optrush
