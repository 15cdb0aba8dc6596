#include "analysis/time_to_loss.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/analysis.h"
#include "analysis/numbers/format.h"
#include "base/text.h"

namespace optrush {
namespace {
double mean_loss(std::span<const StepResult> steps) {
  double sum = 0;
  for (const StepResult& step : steps) sum += step.loss;
  return sum / static_cast<double>(steps.size());
}

/// False for a run without steps, and for one that withholds its speeds.
bool has_times(std::span<const StepResult> steps) {
  return std::ranges::any_of(steps, [](const StepResult& step) { return step.seconds > 0; });
}

/// The ends of the rounds that both rows have.
std::vector<std::pair<const RoundEnd*, const RoundEnd*>> paired(const Row& subject, const Row& reference) {
  std::vector<std::pair<const RoundEnd*, const RoundEnd*>> pairs;
  for (const RoundEnd& mine : subject.ends)
    for (const RoundEnd& other : reference.ends)
      if (mine.round == other.round && mine.seed == other.seed) pairs.emplace_back(&mine, &other);
  return pairs;
}

/// The ratio of the logarithms that `log` finds for each pair; none if it finds none for any of them.
template <class Log>
std::optional<Ratio> ratio_of_pairs(const auto& pairs, const Standard& standard, Log log) {
  std::vector<double> logs;
  for (const auto& [mine, other] : pairs) {
    const std::optional<double> found = log(*mine, *other);
    if (!found) return std::nullopt;
    logs.push_back(*found);
  }
  return logs.empty() ? std::nullopt : std::optional(ratio_of_logs(logs, standard));
}
}  // namespace

std::vector<TimedLoss> losses_by_time(std::span<const StepResult> steps,
                                      std::span<const ValidationPoint> validation) {
  std::vector<TimedLoss> losses;
  if (!has_times(steps)) return losses;
  double sum = 0, seconds = 0;
  int64_t made = 0;
  auto point = validation.begin();
  for (const StepResult& step : steps) {
    seconds += step.seconds;
    ++made;
    if (validation.empty()) {
      sum += step.loss;
      if (made > kSmoothedSteps) sum -= steps[static_cast<size_t>(made - kSmoothedSteps - 1)].loss;
      if (made >= kSmoothedSteps) losses.push_back({made, seconds, sum / kSmoothedSteps});
    }
    for (; point != validation.end() && point->step <= step.step + 1; ++point)
      losses.push_back({made, seconds, point->loss});
  }
  return losses;
}

std::optional<TimeToLoss> time_to_loss(const RunResult& run, double target) {
  if (!has_times(run.steps)) return std::nullopt;
  const auto losses = losses_by_time(run.steps, run.validation);
  TimeToLoss result{.enough_steps = !losses.empty(), .validated = !run.validation.empty()};
  const auto there = std::ranges::find_if(losses, [&](const TimedLoss& loss) { return loss.loss <= target; });
  if (there != losses.end()) {
    result.seconds = there->seconds;
    result.steps = there->steps;
  }
  result.last = losses.empty() ? mean_loss(run.steps) : losses.back().loss;
  return result;
}

std::optional<TimeToLoss> time_to_loss(const std::vector<RoundEnd>& rounds) {
  std::optional<TimeToLoss> result;
  std::vector<double> seconds;
  int64_t most = 0;
  bool always = true;
  for (const RoundEnd& round : rounds) {
    const auto& one = round.time;
    if (!one) continue;
    if (!result)
      result = TimeToLoss{.enough_steps = one->enough_steps, .validated = one->validated, .last = one->last};
    always = always && one->seconds;
    if (one->seconds) seconds.push_back(*one->seconds);
    most = std::max(most, one->steps.value_or(0));
  }
  if (result && always) {
    result->seconds = median(seconds);
    result->steps = most;
  } else if (result) {
    result->in_some_rounds = !seconds.empty();
  }
  return result;
}

std::string text_of(const std::optional<TimeToLoss>& time) {
  if (!time) return kUnknown;
  if (!time->enough_steps) return "too few steps to tell";
  if (!time->seconds) return time->in_some_rounds ? "not in every round" : "not reached";
  return duration(*time->seconds) + ", " + counted(*time->steps, "step");
}

Json json_of(const std::optional<TimeToLoss>& time) {
  if (!time) return nullptr;
  const bool reached = time->seconds.has_value();
  return {{"seconds", reached ? Json(*time->seconds) : Json()},
          {"steps", reached ? Json(*time->steps) : Json()},
          {"reached", reached},
          {"last", time->last},
          {"by", loss_name(time->validated)}};
}

RoundEnd end_of(const StoredRun& run, double target_loss) {
  const RunResult& result = run.result;
  RoundEnd end{.round = run.spec.round, .seed = run.spec.train.seed, .steps = std::ssize(result.steps)};
  for (const StepResult& step : result.steps) {
    end.seconds += step.seconds;
    end.trained += step.trained;
  }
  const auto last = std::min<std::ptrdiff_t>(kSmoothedSteps, std::ssize(result.steps));
  for (auto step = result.steps.end() - last; step != result.steps.end(); ++step)
    end.last += step->loss / static_cast<double>(last);
  end.validated = !result.validation.empty();
  if (end.validated) end.last = result.validation.back().loss;
  if (target_loss > 0) end.time = time_to_loss(result, target_loss);
  return end;
}

std::optional<Ratio> paired_time_to_loss(const Row& subject, const Row& reference, const Standard& standard) {
  return ratio_of_pairs(paired(subject, reference), standard,
                        [](const RoundEnd& mine, const RoundEnd& other) -> std::optional<double> {
                          if (!mine.time || !other.time || mine.time->validated != other.time->validated ||
                              mine.time->seconds.value_or(0) <= 0 || other.time->seconds.value_or(0) <= 0)
                            return std::nullopt;
                          return std::log(*other.time->seconds / *mine.time->seconds);
                        });
}

std::optional<Ratio> paired_perplexity(const Row& subject, const Row& reference, const Standard& standard) {
  const auto pairs = paired(subject, reference);
  if (pairs.size() < 2 || pairs.front().first->seed == pairs.back().first->seed) return std::nullopt;
  return ratio_of_pairs(pairs, standard,
                        [](const RoundEnd& mine, const RoundEnd& other) -> std::optional<double> {
                          if (mine.validated != other.validated || mine.trained != other.trained ||
                              !std::isfinite(mine.last) || !std::isfinite(other.last))
                            return std::nullopt;
                          return mine.last - other.last;
                        });
}
}  // namespace optrush
