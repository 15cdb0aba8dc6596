#pragma once
#include <optional>
#include <string>
#include <vector>

#include "experiment/plan.h"
#include "optrush/json.h"
#include "optrush/spec.h"
#include "simulated/device.h"

namespace optrush {
class Recipe;
class RunSetup;
class Session;

/// The forecast of a training step that runs the same operators on tensors without values.
///
/// If the ranks of a mesh keep different layers, one rank of each stage is planned. The peak and
/// its bound are the largest of these ranks. Costs are those of rank 0.
struct StepForecast {
  PlannedMemory memory;                         ///< without `available`
  std::optional<PlannedValidation> validation;  ///< of a run that validates, by rank 0
  Json costs;                                   ///< StepCosts::to_json; null if `memory.peak` is a bound
};

/// Forecasts a step. `form`: the device to simulate, which need not exist here. A plugin that compiles or
/// records what it wraps is left out: the step without it is the upper bound, and the memory when the
/// optimizer starts is the lower bound. Returns none if another plugin does more than call ATen and does not
/// take part, or if the step needs values; `why_not` then states the reason. `setup`: an opened session.
std::optional<StepForecast> forecast(const RunSpec&, const simulated::Form& form,
                                     std::string* why_not = nullptr, const RunSetup* setup = nullptr);

/// Removes plugins that compile or record what they wrap, and returns other edits that can't run on tensors
/// without values, as "'PLUGIN' in SLOT". `why_bound`: why a forecast without them is only a bound.
std::vector<std::string> remove_compilers(RunSpec& spec, const Recipe&, std::string& why_bound);

/// The forecast of the states that a run saves and of the weights that `optrush weights` writes of them. Each
/// rank's session is built on tensors without values, and lays out its file as the run does. None if the run
/// saves no state, if more than 64 ranks train, or if an optimizer needs values to list its state.
std::optional<PlannedSaving> forecast_saving(const RunSpec&, const simulated::Form& form);

/// The resolved recipe as plain data, without a forecast. declare() of `session` must have been called.
Plan make_plan(const Session& session);

/// Adds memory, costs, saved states and validations to a plan, or the reason why memory has no forecast.
/// `architecture`: of the planned GPU, such as "sm_90"; "": that of this machine, otherwise sm_90.
void add_forecast(Plan& plan, const RunSpec&, const std::string& architecture = "",
                  const RunSetup* setup = nullptr);
}  // namespace optrush
