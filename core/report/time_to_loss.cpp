#include "report/time_to_loss.h"

#include <algorithm>
#include <deque>

#include "report/format.h"
#include "report/statistics.h"

namespace optrush {
namespace {
/// Of the first `steps` ones.
void reached_after(const RunResult& run, int64_t steps, TimeToLoss& result) {
  double seconds = 0;
  for (int64_t i = 0; i < steps; ++i) seconds += run.steps[static_cast<size_t>(i)].seconds;
  result.seconds = seconds;
  result.steps = steps;
}

TimeToLoss by_training_loss(const RunResult& run, double target) {
  TimeToLoss result;
  double sum = 0;
  int64_t steps = 0;
  std::deque<double> last;
  for (const StepResult& step : run.steps) {
    ++steps;
    sum += step.loss;
    last.push_back(step.loss);
    if (last.size() > kSmoothedSteps) {
      sum -= last.front();
      last.pop_front();
    }
    result.last = sum / static_cast<double>(last.size());
    if (!result.steps && last.size() == kSmoothedSteps && sum <= target * kSmoothedSteps)
      reached_after(run, steps, result);
  }
  return result;
}
}  // namespace

std::optional<TimeToLoss> time_to_loss(const RunResult& run, double target) {
  if (run.steps.empty()) return std::nullopt;
  if (run.validation.empty()) return by_training_loss(run, target);
  const auto there = std::ranges::find_if(run.validation,
                                          [&](const ValidationPoint& point) { return point.loss <= target; });
  TimeToLoss result{.validated = true, .last = run.validation.back().loss};
  if (there == run.validation.end()) return result;
  const auto before =
      std::ranges::count_if(run.steps, [&](const StepResult& step) { return step.step < there->step; });
  reached_after(run, before, result);
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
    if (!result) result = TimeToLoss{.validated = one->validated, .last = one->last};
    always = always && one->seconds;
    if (one->seconds) seconds.push_back(*one->seconds);
    most = std::max(most, one->steps.value_or(0));
  }
  if (result && always) {
    result->seconds = median(seconds);
    result->steps = most;
  }
  return result;
}

std::string text_of(const std::optional<TimeToLoss>& time) {
  if (!time) return std::string(kUnknown);
  if (!time->seconds) return "not reached";
  return duration(*time->seconds) + ", " + std::to_string(*time->steps) + " steps";
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
