#include "report/time_to_loss.h"

#include <algorithm>
#include <deque>

#include "report/statistics.h"

namespace optrush {
namespace {
/// Of the steps before number `step`.
double seconds_before(const RunResult& run, int64_t step) {
  double seconds = 0;
  for (const StepResult& each : run.steps) seconds += each.step < step ? each.seconds : 0;
  return seconds;
}

std::optional<double> by_training_loss(const RunResult& run, double target) {
  double seconds = 0, sum = 0;
  std::deque<double> last;
  for (const StepResult& step : run.steps) {
    seconds += step.seconds;
    sum += step.loss;
    last.push_back(step.loss);
    if (last.size() > kSmoothedSteps) {
      sum -= last.front();
      last.pop_front();
    }
    if (last.size() == kSmoothedSteps && sum <= target * kSmoothedSteps) return seconds;
  }
  return std::nullopt;
}
}  // namespace

std::optional<TimeToLoss> time_to_loss(const RunResult& run, double target) {
  if (run.steps.empty()) return std::nullopt;
  if (run.validation.empty()) return TimeToLoss{by_training_loss(run, target), false};
  const auto there = std::ranges::find_if(run.validation,
                                          [&](const ValidationPoint& point) { return point.loss <= target; });
  if (there == run.validation.end()) return TimeToLoss{std::nullopt, true};
  return TimeToLoss{seconds_before(run, there->step), true};
}

std::optional<TimeToLoss> time_to_loss(const std::vector<const RunResult*>& rounds, double target) {
  std::optional<TimeToLoss> result;
  std::vector<double> seconds;
  bool always = true;
  for (const RunResult* run : rounds) {
    const auto one = time_to_loss(*run, target);
    if (!one) continue;
    if (!result) result = TimeToLoss{std::nullopt, one->validated};
    always = always && one->seconds;
    if (one->seconds) seconds.push_back(*one->seconds);
  }
  if (result && always) result->seconds = median(seconds);
  return result;
}
}  // namespace optrush
