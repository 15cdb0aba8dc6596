// Quantities: utilization of the hardware.
#include "report/analysis/quantity_parts.h"

namespace optrush {
namespace {
using A = const Analysis&;
using R = const Row&;
}  // namespace

std::vector<Quantity> hardware_quantities() {
  return {
      {.csv = "model_flops_per_second",
       .json = "model_flops_per_second",
       .grid = "flops_per_second",
       .unit = Unit::flop_rate,
       .value = field<&Row::model_flops_per_second>,
       .title = "FLOP/s",
       .doc = "FLOP/s of all devices by the formula of mfu, for the processed tokens"},
      {.csv = "mfu",
       .json = "mfu",
       .grid = "mfu",
       .tracked = "mfu",
       .unit = Unit::share,
       .value = field<&Row::mfu>,
       .title = "MFU",
       .doc = "model FLOPs utilization, 0 to 1; docs/internals/measuring.md has the formulas"},
      {.csv = "mfu_of_dtype",
       .json = "mfu_of_dtype",
       .unit = Unit::share,
       .value = field<&Row::mfu_of_dtype>,
       .doc = "MFU against the measured peak of the type of the rung's multiplications, where the MFU "
              "divides by another peak"},
      {.csv = "mfu_causal",
       .json = "mfu_causal",
       .unit = Unit::share,
       .value = field<&Row::mfu_causal>,
       .title = "MFU, causal",
       .doc = "MFU with half of the attention's FLOPs"},
      {.csv = "hfu",
       .json = "hfu",
       .grid = "hfu",
       .unit = Unit::share,
       .value = field<&Row::hfu>,
       .title = "HFU",
       .doc = "hardware FLOPs utilization: executed FLOPs, padding and recomputation included"},
  };
}
}  // namespace optrush
