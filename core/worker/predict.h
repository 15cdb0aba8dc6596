#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "experiment/plan.h"
#include "optrush/json.h"
#include "optrush/spec.h"
#include "optrush/tensor.h"
#include "simulated/device.h"

namespace optrush {
class RunSetup;

/// What one training step tells that runs on tensors without values (simulated/device.h): the same operators
/// ask for the same sizes.
///
/// Where the ranks of a mesh keep different layers, one rank of each stage is planned. `peak_bytes` is the
/// largest peak of these ranks. `least_bytes` is the largest of their lower bounds. Costs are those of rank
/// 0, as in a result.
struct StepForecast {
  int64_t peak_bytes = 0;       ///< that a step takes, or takes at most
  int64_t least_bytes = 0;      ///< that it takes at least: `peak_bytes` unless `bounded_by` says why not
  std::string bounded_by;       ///< "": nothing is a bound
  std::optional<int64_t> rank;  ///< that the memory is of; none: all ranks keep the same layers
  simulated::Memory parts;      ///< of `peak_bytes`
  int64_t reserved_bytes = 0;   ///< by the caching allocator; 0 in the form of a CPU
  int64_t pinned_bytes = 0;     ///< host memory that a GPU copies from and to
  Json costs;                   ///< StepCosts::to_json; null where `peak_bytes` is a bound
};

/// `form`: of the device that operators and memory are forecast for, which need not be here. A plugin that
/// compiles or records what it wraps is left out: the step without it is the upper bound, what is in memory
/// when the optimizer begins the lower one. None where another plugin does more than call ATen and does not
/// take part, or the step needs values; `why_not` then says so.
/// `setup`: of the spec, where it was opened already.
std::optional<StepForecast> forecast(const RunSpec&, const simulated::Form& form,
                                     std::string* why_not = nullptr, const RunSetup* setup = nullptr);

/// Adds memory and costs to a plan, or the reason why nothing is predicted. `architecture`: of the GPU that
/// is planned for, as in "sm_90"; "": the one that is here, else sm_90. `setup`: as of forecast().
void add_forecast(Plan& plan, const RunSpec&, const std::string& architecture = "",
                  const RunSetup* setup = nullptr);
}  // namespace optrush
