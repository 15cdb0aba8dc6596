#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiment/planned_memory.h"
#include "optrush/json.h"
#include "optrush/options.h"
#include "optrush/spec.h"
#include "spec/operator_spec.h"
#include "spec/record.h"

namespace optrush {
/// A plugin as a run uses it: its build, and its effect with these options.
struct UsedPlugin {
  std::string name, version, file, sha256;
  Effect effect = Effect::exact;
  Json options = Json::object();
};

/// Who owns a slot of the recipe, and what wraps it, from the inside out.
struct PlannedSlot {
  struct Wrap {
    std::string phase, plugin;
  };
  std::string slot, base;
  std::vector<Wrap> wraps;
};

/// Parameters of a rank. Bytes are those of their own types.
struct PlannedParameters {
  int64_t count = 0, trainable = 0, bytes = 0;
};

/// FLOPs a token of a full sequence, by each formula.
struct PlannedFlops {
  std::optional<double> mfu, mfu_causal;
};

/// One dimension of the ranks.
struct MeshDimension {
  std::string name;
  int64_t size = 1;
};

/// What a spec became after every plugin's apply() (docs/internals/forecasts.md): the problem, the slots of
/// the recipe, parameters, FLOPs, and what a step is predicted to take. plans.json has one for each variant.
struct Plan {
  TrainSpec problem;  ///< with what plugins made of it
  std::string model_kind;
  Json model, data;  ///< as in the spec
  std::vector<UsedPlugin> plugins;
  std::vector<PlannedSlot> slots;
  Json activations;  ///< the policy
  std::optional<PlannedParameters> parameters;
  std::vector<std::string> notes;
  std::optional<PlannedFlops> flops_per_token;  ///< none: it follows from the lengths of documents
  std::vector<MeshDimension> mesh;              ///< outermost first; empty: one rank
  std::optional<OperatorWork> work;             ///< none: a model and no operator
  std::optional<PlannedMemory> memory;
  Json costs;               ///< of a step (measure/step_costs.h); null: not predicted
  std::string no_forecast;  ///< why there is none of memory; "": there is one

  bool uses(Effect) const;
  /// Ranks that train together.
  int64_t devices() const { return problem.world_size; }
};
/// By variant; none where it has none.
using Plans = std::vector<std::optional<Plan>>;

/// Errors name the field. Unknown fields are passed over.
Plan plan_from_json(const Json&, const std::string& where);
/// None of null.
std::optional<Plan> optional_plan_from_json(const Json&, const std::string& where);
Json to_json(const Plan&);
Json to_json(const std::optional<Plan>&);

const Record<MeshDimension>& record_of(const MeshDimension*);
const Record<UsedPlugin>& record_of(const UsedPlugin*);
const Record<Plan>& record_of(const Plan*);
}  // namespace optrush
