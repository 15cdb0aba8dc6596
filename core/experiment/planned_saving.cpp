// Saved states, exported weights and validations in a plan.
#include "base/number_text.h"
#include "base/text.h"
#include "experiment/plan.h"

namespace optrush {
static Record<PlannedWeights> record_of(const PlannedWeights*) {
  using W = PlannedWeights;
  return Record<W>("exported weights")
      .open()
      .field("bytes", &W::bytes, "size of the safetensors file", {.required = true, .integer = true})
      .field("host_bytes", &W::host, "host memory that the tensors of the export hold at once",
             {.integer = true});
}

Record<PlannedSaving> record_of(const PlannedSaving*) {
  using S = PlannedSaving;
  return Record<S>("a forecast of saved states")
      .open()
      .field("part_bytes", &S::parts, "size of the file that each rank writes, by rank",
             {.required = true, .integer = true})
      .field("states", &S::states, "the most states that the run saves", {.required = true})
      .field("kept_bytes", &S::kept, "states in the run's folder after the run", {.integer = true})
      .field("disk_bytes", &S::disk,
             "most bytes of states in the run's folder: a new state is complete before the old "
             "one is removed",
             {.integer = true})
      .field("host_bytes", &S::host, "host memory of a rank for saving, beside its tensors",
             {.integer = true})
      .field("device_bytes", &S::device, "device memory of a rank for saving; absent on a CPU",
             {.left_out = true, .integer = true})
      .field("weights", &S::weights,
             "written by optrush weights: the model, or an adapter alone; absent: it cannot be "
             "exported",
             {.left_out = true})
      .field("merged_weights", &S::merged, "written by optrush weights --merge; absent: there is no adapter",
             {.left_out = true});
}

Record<PlannedValidation> record_of(const PlannedValidation*) {
  using V = PlannedValidation;
  return Record<V>("a forecast of validations")
      .open()
      .field("times", &V::times, "the most validations in the run", {.required = true})
      .field("positions", &V::positions, "positions of one validation, including padding, of all ranks",
             {.required = true})
      .field("peak_bytes", &V::peak, "peak memory of a rank in a validation",
             {.required = true, .integer = true})
      .field("flops_share", &V::flops, "FLOPs of all validations divided by the FLOPs of all steps",
             {.left_out = true});
}

std::string planned_saving_text(const PlannedSaving& saving) {
  const bool ranks = saving.parts.size() > 1;
  std::string text =
      "a saved state takes " + bytes(saving.bytes()) + " (" + grouped(saving.bytes()) + " bytes";
  if (ranks) text += " in " + std::to_string(saving.parts.size()) + " files, one per rank";
  text += "); at most " + counted(saving.states, "state") + " saved, " + bytes(saving.disk) +
          " of disk at once, " + bytes(saving.kept) + " after the run; ";
  text +=
      saving.host > 0 ? "saving needs " + bytes(saving.host) + " of host memory" : "saving copies nothing";
  if (saving.device.value_or(0) > 0) text += " and " + bytes(*saving.device) + " of device memory";
  return text + (ranks && saving.host > 0 ? " per rank" : "");
}

std::string planned_weights_text(const PlannedSaving& saving) {
  const auto text = [](const PlannedWeights& weights) {
    return bytes(weights.bytes) + ", with " + bytes(weights.host) + " of host memory";
  };
  if (!saving.weights) return "";
  return "exported weights: " + text(*saving.weights) +
         (saving.merged ? "; merged: " + text(*saving.merged) : "");
}

std::string planned_validation_text(const PlannedValidation& validation) {
  return "validation: at most " + counted(validation.times, "time") + ", each " +
         counted(validation.positions, "position") + ", predicted peak " + bytes(validation.peak) +
         (validation.flops ? "; together " + percent(*validation.flops) + " of the FLOPs of the steps" : "");
}
}  // namespace optrush
