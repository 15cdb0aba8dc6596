#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "results/stored.h"

namespace optrush {
/// How steady the GPUs were, measured by the steps of the runs.
struct GpuSteps {
  size_t runs = 0;  ///< number of runs whose timed steps do equal work
  /// Median over those runs of (90th - 10th percentile) / median of step times; none without such a run.
  std::optional<double> spread;
};
/// None if a run was on a CPU or no run names its device. Runs on a CPU have noise probes instead.
std::optional<GpuSteps> gpu_steps_of(const std::vector<StoredRun>&);

/// A warning with a remedy; "" if the steps took equal times.
std::string gpu_warning(const GpuSteps&);
}  // namespace optrush
