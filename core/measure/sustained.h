#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "measure/gpus.h"

namespace optrush {
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
}  // namespace optrush
