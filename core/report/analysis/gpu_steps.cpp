#include "report/analysis/gpu_steps.h"

#include <algorithm>

#include "report/analysis/noise.h"
#include "report/numbers/format.h"
#include "report/numbers/statistics.h"

namespace optrush {
namespace {
constexpr size_t kFewestOfARun = 5;

/// None if there are few timed steps or their work differs, as with packed documents.
std::optional<double> spread_of_steps(const RunResult& result) {
  std::vector<double> seconds;
  const StepResult* first = nullptr;
  for (const StepResult& step : result.steps) {
    if (!step.timed) continue;
    if (first == nullptr) first = &step;
    if (step.tokens != first->tokens || step.positions != first->positions ||
        step.attention_pairs != first->attention_pairs)
      return std::nullopt;
    seconds.push_back(step.seconds);
  }
  if (seconds.size() < kFewestOfARun) return std::nullopt;
  std::ranges::sort(seconds);
  const auto quantile = [&](size_t tenths) { return seconds[tenths * (seconds.size() - 1) / 10]; };
  if (!(quantile(5) > 0)) return std::nullopt;
  return (quantile(9) - quantile(1)) / quantile(5);
}
}  // namespace

std::optional<GpuSteps> gpu_steps_of(const std::vector<StoredRun>& runs) {
  std::optional<GpuSteps> gpu;
  std::vector<double> spreads;
  for (const StoredRun& run : runs) {
    if (run.result.device.empty()) continue;
    if (!run.result.on_gpu) return std::nullopt;
    if (!gpu) gpu.emplace();
    if (!run.result.ok() || run.spec.purpose != Purpose::measure) continue;
    if (const auto spread = spread_of_steps(run.result)) spreads.push_back(*spread);
  }
  if (!gpu) return std::nullopt;
  gpu->runs = spreads.size();
  gpu->spread = median(std::move(spreads));
  return gpu;
}

std::string gpu_warning(const GpuSteps& gpu) {
  if (gpu.spread.value_or(0) <= kQuietSpread) return "";
  return "The GPU was not steady: equal steps of a run varied by " + percent(*gpu.spread, 0) +
         " in time. To improve it: stop other programs on the GPU, or lock its clocks.";
}
}  // namespace optrush
