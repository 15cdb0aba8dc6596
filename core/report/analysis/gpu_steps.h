#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "results/stored.h"

namespace optrush {
/// How steady the GPUs were, by the steps of the runs that they trained.
struct GpuSteps {
  size_t runs = 0;               ///< whose timed steps do equal work, so that their times can be compared
  std::optional<double> spread;  ///< the median over those runs of (nine tenths - a tenth) / median of their
                                 ///< step times; none without such a run
};
/// None where a run was on a CPU, or no run names its device: the probe of the CPU says how steady those
/// were.
std::optional<GpuSteps> gpu_steps_of(const std::vector<StoredRun>&);

/// What makes the measurements doubtful, and what would help; "" where the steps took equal times.
std::string gpu_warning(const GpuSteps&);
}  // namespace optrush
