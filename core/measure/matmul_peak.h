#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace optrush {
/// FLOP/s of the fastest square matmul, by dtype: fp32, bf16, fp16, fp64. Several sizes, repeated in turn so
/// that a drift of the clock meets all of them; about `seconds` long. Timings that a CPU can't reach do not
/// count (most_flops.h).
std::vector<std::pair<std::string, double>> measure_matmul_peak(at::Device, double seconds);

/// Bytes per second by "read" (a sum), "write" (a fill), "copy" and "triad" (a = b + s c), each byte read or
/// written counted once. `working_set`: bytes of the three arrays together.
std::vector<std::pair<std::string, double>> measure_bandwidths(at::Device, int64_t working_set,
                                                               double seconds);
/// The faster of copy and triad, measured with the others.
double measure_bandwidth(at::Device, int64_t working_set, double seconds);
}  // namespace optrush
