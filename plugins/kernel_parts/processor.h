#pragma once

namespace optrush::fused {
/// Whether this processor multiplies matrices faster in fp32 than in bf16: an x86 processor without AMX,
/// except AMD's with AVX512-BF16. On Intel's, vdpbf16ps has half the rate of fp32 (Emerald Rapids, two cores:
/// 165 beside 290 GFLOP/s). Without these instructions, oneDNN converts every element.
bool multiplies_faster_in_fp32();
}  // namespace optrush::fused
