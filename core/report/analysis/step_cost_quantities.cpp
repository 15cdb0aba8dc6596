// Quantities: costs of a step on a GPU.
#include "report/analysis/quantity_parts.h"

namespace optrush {
namespace {
using A = const Analysis&;
using R = const Row&;

template <auto Member>
MaybeNumber cost_field(A, R row) {
  return row.cost ? (*row.cost).*Member : std::nullopt;
}
}  // namespace

std::vector<Quantity> step_cost_quantities() {
  return {
      {.csv = "launches",
       .json = "costs/launches",
       .value = cost_field<&StepCost::launches>,
       .doc = "number of kernels that a GPU starts for the operators of a step, counted in a warm-up step"},
      {.csv = "host_waits",
       .json = "costs/host_waits",
       .value = cost_field<&StepCost::host_waits>,
       .doc = "number of times that the host waits for the device per step; empty on a CPU"},
      {.csv = "copies",
       .json = "costs/copies",
       .value = cost_field<&StepCost::copies>,
       .doc = "number of copies between host and device per step; empty on a CPU"},
      {.csv = "copied_bytes",
       .json = "costs/copied_bytes",
       .unit = Unit::bytes,
       .value = cost_field<&StepCost::copied_bytes>,
       .doc = "bytes of these copies"},
      {.csv = "casts",
       .json = "costs/casts",
       .value = cost_field<&StepCost::casts>,
       .doc = "number of copies between floating-point types per step"},
      {.csv = "cast_bytes",
       .json = "costs/cast_bytes",
       .unit = Unit::bytes,
       .value = cost_field<&StepCost::cast_bytes>,
       .doc = "bytes that these casts read and write"},
      {.csv = "casts_of_a_weight",
       .json = "costs/casts_of_a_weight",
       .value = cost_field<&StepCost::casts_of_a_weight>,
       .doc = "number of casts of the parameter with the most casts"},
      {.csv = "elementwise_bytes",
       .json = "costs/elementwise_bytes",
       .unit = Unit::bytes,
       .value = cost_field<&StepCost::elementwise_bytes>,
       .doc = "bytes read and written by kernels other than matmul and attention, casts included"},
      {.json = "costs/matmul_flops", .value = cost_field<&StepCost::matmul_flops>},
      {.json = "costs/attention_flops", .value = cost_field<&StepCost::attention_flops>},
  };
}
}  // namespace optrush
