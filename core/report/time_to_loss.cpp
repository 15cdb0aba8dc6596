#include "report/time_to_loss.h"

#include <algorithm>
#include <deque>

#include "report/statistics.h"

namespace optrush {
namespace {
/// Of the first `steps` ones.
TimeToLoss reached_after(const RunResult& run, int64_t steps, bool validated) {
  double seconds = 0;
  for (int64_t i = 0; i < steps; ++i) seconds += run.steps[static_cast<size_t>(i)].seconds;
  return {seconds, steps, validated};
}

TimeToLoss by_training_loss(const RunResult& run, double target) {
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
    if (last.size() == kSmoothedSteps && sum <= target * kSmoothedSteps)
      return reached_after(run, steps, /*validated=*/false);
  }
  return {};
}
}  // namespace

std::optional<TimeToLoss> time_to_loss(const RunResult& run, double target) {
  if (run.steps.empty()) return std::nullopt;
  if (run.validation.empty()) return by_training_loss(run, target);
  const auto there = std::ranges::find_if(run.validation,
                                          [&](const ValidationPoint& point) { return point.loss <= target; });
  if (there == run.validation.end()) return TimeToLoss{.validated = true};
  const auto before =
      std::ranges::count_if(run.steps, [&](const StepResult& step) { return step.step < there->step; });
  return reached_after(run, before, /*validated=*/true);
}

std::optional<TimeToLoss> time_to_loss(const std::vector<const RunResult*>& rounds, double target) {
  std::optional<TimeToLoss> result;
  std::vector<double> seconds;
  int64_t most = 0;
  bool always = true;
  for (const RunResult* run : rounds) {
    const auto one = time_to_loss(*run, target);
    if (!one) continue;
    if (!result) result = TimeToLoss{.validated = one->validated};
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
}  // namespace optrush
