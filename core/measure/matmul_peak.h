#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "measure/cpu_info.h"
#include "measure/gpus.h"

namespace optrush {
/// An upper bound of FLOP/s: logical processors x 10 GHz x the widest multiply-add. It finds timings that a
/// jump of the clock made too short. Infinite if the width is not known.
double most_flops(const CpuInfo&, c10::ScalarType);
/// The minimum of the shortest timing so far (0: none) and of a new one that is longer than `least`.
double shortest_possible(double so_far, double seconds, double least);

/// A call of the product of two matrices: LibTorch's or, in fp32 on a CPU, oneDNN's if it is faster. LibTorch
/// calls MKL there, which is half as fast on AMD's processors with AVX-512.
std::function<void()> fastest_product(const at::Tensor& a, const at::Tensor& b);

/// FLOP/s of the fastest square matrix product, by dtype: fp32, bf16, fp16, fp64. Measures several sizes in
/// turn for about `seconds`. Impossible timings do not count (most_flops).
std::vector<std::pair<std::string, double>> measure_matmul_peak(at::Device, double seconds);

/// The rate of a matrix product that is repeated for seconds, with what the GPU did meanwhile. A GPU that is
/// held at its power limit sustains less than its best burst (measure_matmul_peak).
struct SustainedProduct {
  std::string dtype;  ///< "bf16", "fp8", "fp32"
  int64_t m, k, n;    ///< of (m, k) times (k, n)
  double flops_per_second;
  GpuReadings gpu;  ///< without a GPU only its seconds
};
/// Repeats each product for about `seconds`, after an untimed fifth of that time in which clocks settle. On a
/// GPU: 8192 x 8192 x 8192 and 32768 x 2048 x 8192 in bf16, and in fp8 where the GPU has it. On a CPU: the
/// largest square product, of at most 2048, that fits often enough into the time, in fp32 and bf16.
std::vector<SustainedProduct> measure_sustained(at::Device, double seconds);

/// Bytes per second of "read" (a sum), "write" (a fill), "copy" and "triad" (a = b + s c). Each byte read or
/// written counts once. `working_set`: bytes of the three arrays together.
std::vector<std::pair<std::string, double>> measure_bandwidths(at::Device, int64_t working_set,
                                                               double seconds);
}  // namespace optrush
