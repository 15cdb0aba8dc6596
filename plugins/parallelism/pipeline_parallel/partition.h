#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "optrush/spec.h"
#include "optrush/unit.h"

namespace optrush::pipeline_parallel {
/// Cost of a unit in a step on one rank.
struct UnitCost {
  double flops = 0;  ///< of matrix products and attention, forward and backward
  double bytes = 0;  ///< that gradients and optimizer read and write
};
UnitCost cost_of(const Unit&, const RunSpec&);

/// Cuts so many neighbouring costs into parts so that the largest sum is as small as can be, and of those
/// cuts the one whose later parts are the lightest. Gives each part's number of costs, at least 1.
std::vector<int64_t> even_parts(const std::vector<double>& costs, int64_t parts);

/// How many units each stage has. `blocks`: how many blocks each is to have, "3,5"; empty: by cost, with so
/// many FLOPs for a byte as devices of the kind make while they move one. An Error where there are too few.
std::vector<int64_t> units_of_stages(const std::vector<std::unique_ptr<Unit>>& units, const RunSpec&,
                                     int64_t stages, const std::string& blocks, bool gpu);
}  // namespace optrush::pipeline_parallel
