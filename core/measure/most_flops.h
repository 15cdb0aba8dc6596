#pragma once
#include <c10/core/ScalarType.h>

#include "measure/cpu_info.h"

namespace optrush {
/// FLOP/s that no processor with these instruction sets passes: logical processors × 10 GHz × the widest
/// multiply-add. Generous on purpose: it tells a clock that jumped from a fast matmul, not a good figure from
/// a better one. Infinite where the width is not known.
double most_flops(const CpuInfo&, c10::ScalarType);
/// The shorter of the shortest timing so far (0: none) and a new one, which does not count where it is not
/// longer than `least`, the seconds that the work takes at most_flops.
double shortest_possible(double so_far, double seconds, double least);
}  // namespace optrush
