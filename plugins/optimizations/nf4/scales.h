#pragma once
#include "optrush/tensor.h"

namespace optrush::nf4 {
/// Scales (n, all >= 0) in 8 bits (arXiv:2305.14314, "Double Quantization"): codes (n) in int8, and for each
/// 256 of them a mean and a step in fp32. A scale is mean + code * step.
Tensors encode_scales(const Tensor& scales);
/// Decodes {codes, means, steps} to the scales, in fp32.
Tensor decode_scales(const Tensor& codes, const Tensor& means, const Tensor& steps);
}  // namespace optrush::nf4
