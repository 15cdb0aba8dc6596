// Quantities: peak memory, measured and predicted.
#include "report/analysis/quantity_parts.h"

namespace optrush {
namespace {
using A = const Analysis&;
using R = const Row&;

template <auto Member>
MaybeNumber memory_field(A, R row) {
  return row.memory.*Member;
}

template <auto Member>
MaybeNumber memory_of_run(const RunResult& run) {
  return run.memory.*Member;
}

template <auto Member>
MaybeNumber planned_field(A, R row) {
  return row.planned_memory ? MaybeNumber((*row.planned_memory).*Member) : std::nullopt;
}
}  // namespace

std::vector<Quantity> memory_quantities() {
  return {
      {.csv = "peak_allocated_bytes",
       .json = "memory/peak_allocated",
       .grid = "peak_memory",
       .compared = "peak_allocated",
       .tracked = "active_memory_bytes",
       .run = "active_memory_bytes",
       .unit = Unit::bytes,
       .of_run = memory_of_run<&Memory::allocated>,
       .value = memory_field<&Memory::allocated>,
       .title = "peak memory",
       .doc = "peak memory: the most bytes that tensors hold in the timed steps"},
      {.csv = "peak_vs_previous",
       .value = [](A, R r) { return r.previous.memory; },
       .doc = "peak memory divided by that of `previous`"},
      {.csv = "peak_vs_base",
       .value = [](A, R r) { return r.base.memory; },
       .doc = "peak memory divided by that of `base`"},
      {.csv = "peak_reserved_bytes",
       .json = "memory/peak_reserved",
       .run = "reserved_memory_bytes",
       .unit = Unit::bytes,
       .of_run = memory_of_run<&Memory::reserved>,
       .value = memory_field<&Memory::reserved>,
       .title = "peak reserved",
       .doc = "the most bytes that the caching allocator holds; empty on a CPU"},
      {.csv = "process_bytes",
       .json = "memory/process",
       .run = "process_memory_bytes",
       .unit = Unit::bytes,
       .of_run = memory_of_run<&Memory::process>,
       .value = memory_field<&Memory::process>,
       .title = "process",
       .doc = "memory of the whole process: device memory by NVML, or the resident set on a CPU"},
      {.csv = "parameters_bytes",
       .unit = Unit::bytes,
       .value = [](A, R r) { return value_named(r.memory.parts, "parameters"); },
       .title = "parameters",
       .doc = "parameters in a step"},
      {.csv = "gradients_bytes",
       .unit = Unit::bytes,
       .value = [](A, R r) { return value_named(r.memory.parts, "gradients"); },
       .title = "gradients",
       .doc = "gradients in a step"},
      {.csv = "optimizer_state_bytes",
       .unit = Unit::bytes,
       .value = [](A, R r) { return value_named(r.memory.parts, "optimizer_state"); },
       .title = "optimizer state",
       .doc = "optimizer state in a step"},
      {.csv = "activations_bytes",
       .grid = "activations",
       .unit = Unit::bytes,
       .value = [](A, R r) { return value_named(r.memory.parts, "activations"); },
       .title = "activations",
       .grid_title = "activations, predicted",
       .doc = "activations in a step: tensors kept for the backward"},
      {.csv = "predicted_peak_bytes",
       .json = "predicted_peak",
       .unit = Unit::bytes,
       .value = field<&Row::predicted_peak>,
       .doc = "peak memory predicted before training; empty where the plan has only bounds"},
      {.csv = "predicted_least_bytes",
       .unit = Unit::bytes,
       .value = planned_field<&PlannedMemory::least>,
       .doc = "lower bound of the predicted peak memory; equal to it where it is known"},
      {.csv = "predicted_most_bytes",
       .unit = Unit::bytes,
       .value = planned_field<&PlannedMemory::peak>,
       .doc = "upper bound of the predicted peak memory; equal to it where it is known"},
      {.csv = "predicted_reserved_bytes",
       .json = "predicted_reserved",
       .unit = Unit::bytes,
       .value = planned_field<&PlannedMemory::reserved>,
       .doc = "predicted memory that LibTorch's caching allocator takes from a GPU"},
      {.csv = "prediction_error",
       .json = "prediction_error",
       .unit = Unit::relative_error,
       .value = field<&Row::prediction_error>,
       .title = "error",
       .doc = "predicted peak / measured peak - 1"},
  };
}
}  // namespace optrush
