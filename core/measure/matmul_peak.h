#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace optrush {
/// FLOP/s of the fastest square matrix product, by dtype: fp32, bf16, fp16, fp64. Measures several sizes in
/// turn for about `seconds`, so that a drift of the clock affects all of them. Impossible timings do not
/// count (most_flops.h).
std::vector<std::pair<std::string, double>> measure_matmul_peak(at::Device, double seconds);

/// Bytes per second of "read" (a sum), "write" (a fill), "copy" and "triad" (a = b + s c). Each byte read or
/// written counts once. `working_set`: bytes of the three arrays together.
std::vector<std::pair<std::string, double>> measure_bandwidths(at::Device, int64_t working_set,
                                                               double seconds);
/// The faster of copy and triad. Measures all four.
double measure_bandwidth(at::Device, int64_t working_set, double seconds);
}  // namespace optrush
