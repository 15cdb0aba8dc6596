#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "optrush/json.h"
#include "optrush/options.h"
#include "optrush/spec.h"
#include "spec/operator_spec.h"
#include "spec/record.h"

namespace optrush {
/// A plugin in a run: its build, its options and its effect with them.
struct UsedPlugin {
  std::string name, version, file, sha256;
  Effect effect = Effect::exact;
  Json options = Json::object();
  bool per_micro_batch = false;
};

/// A slot of the recipe: its base and its wraps, from the inside out.
struct PlannedSlot {
  struct Wrap {
    std::string phase, plugin;
  };
  std::string slot, base;
  std::vector<Wrap> wraps;
};

/// Parameters of a rank. Bytes are those of their types.
struct PlannedParameters {
  int64_t count = 0, trainable = 0, bytes = 0;
};

/// FLOPs per token of a full sequence, by each formula.
struct PlannedFlops {
  std::optional<double> mfu, mfu_causal;
};

/// The forecast of a step's memory, in bytes.
struct PlannedMemory {
  double peak = 0;         ///< peak of memory in use, or an upper bound of it
  double least = 0;        ///< a lower bound; equal to `peak` if the forecast is exact
  std::string bounded_by;  ///< why there are only bounds; "": the forecast is exact
  std::optional<double> tensors, block_rounding, cublas_workspaces;  ///< parts of `peak`
  std::optional<double> reserved;       ///< reserved by the caching allocator; none on a CPU
  std::optional<double> pinned;         ///< pinned host memory; none on a CPU
  std::optional<double> communicators;  ///< NCCL's, of a rank; none on a CPU. Their memory is not in `peak`
  std::optional<double> available;      ///< memory of the device; none: this machine does not have the device
  std::string device;                   ///< "cpu" or "cuda"
  std::optional<int64_t> rank;  ///< the rank with the largest peak; none: all ranks keep the same layers
};

/// A dimension of the mesh.
struct MeshDimension {
  std::string name;
  int64_t size = 1;
};

/// The plan of a variant: the spec after every plugin's apply() (docs/internals/forecasts.md), the slots of
/// the recipe, parameters, FLOPs, and the forecast of a step. plans.json has one per variant.
struct Plan {
  TrainSpec problem;  ///< after the plugins' edits
  std::string model_kind;
  Json model, data;  ///< as in the spec
  std::vector<UsedPlugin> plugins;
  std::vector<PlannedSlot> slots;
  Json activations;  ///< the activation policy
  std::optional<PlannedParameters> parameters;
  std::vector<std::string> notes;
  std::optional<PlannedFlops> flops_per_token;  ///< none: it depends on the lengths of documents
  std::vector<MeshDimension> mesh;              ///< outermost first; empty: one rank
  std::optional<OperatorWork> work;             ///< only for a single operator
  std::optional<PlannedMemory> memory;
  Json costs;               ///< costs of a step (measure/step_costs.h); null: not predicted
  std::string no_forecast;  ///< why there is no forecast of memory; "": there is one

  bool uses(Effect) const;
  /// Number of ranks that train together.
  int64_t devices() const { return problem.world_size; }
};
/// Plans by variant; none: the variant has no plan.
using Plans = std::vector<std::optional<Plan>>;

/// Errors name the field. Unknown fields are ignored.
Plan plan_from_json(const Json&, const std::string& where);
/// None for null.
std::optional<Plan> optional_plan_from_json(const Json&, const std::string& where);
Json to_json(const Plan&);
Json to_json(const std::optional<Plan>&);

const Record<MeshDimension>& record_of(const MeshDimension*);
const Record<UsedPlugin>& record_of(const UsedPlugin*);
const Record<Plan>& record_of(const Plan*);
const Record<PlannedMemory>& record_of(const PlannedMemory*);

/// "64.7 GiB", or for bounds "21.0 to 64.7 GiB".
std::string planned_peak_text(const PlannedMemory&);
/// "predicted peak 64.7 GiB active (including cuBLAS workspaces 64.0 MiB), 71.8 GiB reserved".
std::string planned_memory_text(const PlannedMemory&);
}  // namespace optrush
