#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "optrush/spec.h"
#include "optrush/unit.h"

namespace optrush::pipeline_parallel {
/// Cost of a unit in a step on one rank.
struct UnitCost {
  double flops = 0;  ///< matrix products and attention, forward and backward
  double bytes = 0;  ///< read and written by gradients and optimizer
};
UnitCost cost_of(const Unit&, const RunSpec&);

/// Cuts a list of costs into consecutive parts with the smallest largest sum. Of several such cuts it takes
/// the one with the smallest sum of squares, so that parts below the largest are even: the first stages hold
/// the most activations. Returns the number of costs in each part, at least 1.
std::vector<int64_t> even_parts(const std::vector<double>& costs, int64_t parts);

/// The number of units of each stage. `blocks`: the number of blocks of each stage ("3,5"). If it is empty,
/// the cut is by cost: a byte counts as the FLOPs that a device of this kind computes while it moves one
/// byte. Throws an Error if there are too few units.
std::vector<int64_t> units_of_stages(const std::vector<std::unique_ptr<Unit>>& units, const RunSpec&,
                                     int64_t stages, const std::string& blocks, bool gpu);
}  // namespace optrush::pipeline_parallel
