#pragma once
#include <cstdint>
#include <numeric>
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

/// Parameters of the model, and the elements of them that rank 0 keeps. Bytes are those of their types.
struct PlannedParameters {
  int64_t count = 0, trainable = 0, bytes = 0;
  std::optional<int64_t> kept;  ///< none: a file of an earlier build
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

/// Weights that `optrush weights` writes of a saved state, with its default options.
struct PlannedWeights {
  double bytes = 0;  ///< size of the safetensors file
  double host = 0;   ///< host memory that the tensors of the export hold at once
};

/// The number of saves or validations of a run that are due after every `every` steps and after the last one.
inline int64_t times_due(int64_t every, int64_t steps) { return every > 0 ? (steps + every - 1) / every : 0; }

/// The forecast of a run's saved states, in bytes. `host` and `device` are memory, the others are files.
struct PlannedSaving {
  std::vector<double> parts;      ///< the files of a state, by rank
  std::optional<int64_t> states;  ///< the most states that the run saves; none: epochs are its only end
  double kept = 0;                ///< bytes in the run's folder after the run
  double disk = 0;                ///< most bytes there: a new state is complete before the old one goes
  double host = 0;                ///< host memory of a rank for saving, beside its tensors
  std::optional<double> device;   ///< device memory of a rank for saving; none on a CPU
  std::optional<PlannedWeights> weights;  ///< the model, or the adapter alone; none: it can't be exported
  std::optional<PlannedWeights> merged;   ///< the model with its adapter merged; none: there is no adapter
  double bytes() const { return std::accumulate(parts.begin(), parts.end(), 0.0); }
};

/// The forecast of a run's validations.
struct PlannedValidation {
  std::optional<int64_t> times;  ///< the most validations in the run; none: epochs are its only end
  int64_t positions = 0;         ///< of one validation, of all ranks, with padding
  double peak = 0;               ///< peak of a rank's memory in use, in bytes
  std::optional<double> flops;   ///< FLOPs of all validations per FLOP of the steps
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
  std::optional<PlannedSaving> saving;          ///< none: the run saves no state, or not predicted
  std::optional<PlannedValidation> validation;  ///< none: the run has none, or not predicted
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
Json to_json(const std::optional<Plan>&);

Record<MeshDimension> record_of(const MeshDimension*);
Record<UsedPlugin> record_of(const UsedPlugin*);
Record<Plan> record_of(const Plan*);
Record<PlannedMemory> record_of(const PlannedMemory*);

/// "64.7 GiB", or for bounds "21.0 to 64.7 GiB".
std::string planned_peak_text(const PlannedMemory&);
/// "predicted peak 64.7 GiB active (including cuBLAS workspaces 64.0 MiB), 71.8 GiB reserved".
std::string planned_memory_text(const PlannedMemory&);

Record<PlannedSaving> record_of(const PlannedSaving*);
Record<PlannedValidation> record_of(const PlannedValidation*);
/// "a saved state takes 1.25 GiB (1,342,177,280 bytes); at most 4 states saved, ..."
std::string planned_saving_text(const PlannedSaving&);
/// "exported weights: 2.30 GiB, with 6.90 GiB of host memory"; "" if there are none.
std::string planned_weights_text(const PlannedSaving&);
/// "validation: at most 4 times, each 65536 positions, predicted peak 2.10 GiB"
std::string planned_validation_text(const PlannedValidation&);
}  // namespace optrush
