#include "analysis/time_to_loss.h"

#include <algorithm>

#include "analysis/numbers/format.h"
#include "analysis/numbers/statistics.h"
#include "analysis/quality.h"
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

std::optional<double> loss_at(const std::vector<TimedLoss>& losses, double seconds) {
  return loss_between(losses, seconds, &TimedLoss::seconds);
}

std::optional<TimeToLoss> time_to_loss(const RunResult& run, double target) {
  if (!has_times(run.steps)) return std::nullopt;
  const auto losses = losses_by_time(run.steps, run.validation);
  TimeToLoss result{.enough_steps = !losses.empty(), .validated = !run.validation.empty()};
  const auto there = std::ranges::find_if(losses, [&](const TimedLoss& loss) { return loss.loss <= target; });
  if (there != losses.end()) {
    result.seconds = there->seconds;
    result.steps = there->steps;
    result.since_before = there->seconds - (there == losses.begin() ? 0 : std::prev(there)->seconds);
  }
  result.last = losses.empty() ? mean_loss(run.steps) : losses.back().loss;
  return result;
}

std::optional<TimeToLoss> time_to_loss(const std::vector<const RunResult*>& rounds, double target) {
  std::optional<TimeToLoss> result;
  std::vector<double> seconds;
  int64_t most = 0;
  bool always = true;
  for (const RunResult* run : rounds) {
    const auto one = time_to_loss(*run, target);
    if (!one) continue;
    if (!result)
      result = TimeToLoss{.enough_steps = one->enough_steps, .validated = one->validated, .last = one->last};
    always = always && one->seconds;
    if (one->seconds) seconds.push_back(*one->seconds);
    most = std::max(most, one->steps.value_or(0));
    result->since_before = std::max(result->since_before, one->since_before);
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
          {"by", time->validated ? "validation loss" : "training loss"}};
}
}  // namespace optrush
