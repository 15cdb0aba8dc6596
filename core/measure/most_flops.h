#pragma once
#include <c10/core/ScalarType.h>

#include "measure/cpu_info.h"

namespace optrush {
/// An upper bound of FLOP/s for a processor with these instruction sets: logical processors x 10 GHz x the
/// widest multiply-add. It is generous, because its only purpose is to find timings that a jump of the clock
/// made too short. Infinite if the width is not known.
double most_flops(const CpuInfo&, c10::ScalarType);
/// The minimum of the shortest timing so far (0: none) and a new one. The new one is ignored if it is not
/// longer than `least`, the time of the work at most_flops.
double shortest_possible(double so_far, double seconds, double least);
}  // namespace optrush
