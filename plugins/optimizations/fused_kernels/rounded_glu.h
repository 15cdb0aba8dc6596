#pragma once
#include "kernels.h"
#include "optrush/tensor.h"

/// Gated linear units whose results are written in 8 bits at once, where linears in 8 bits offer it
/// (kernel_parts/rounding.h). The bits are those of the present results, quantized.
namespace optrush::fused {
/// The product, which carries its matrix in 8 bits; undefined if that is not offered.
Tensor rounded_product(Gate, const Tensor& gate, const Tensor& up);
/// {gradient of the gate, of up}, which carry their matrix in 8 bits; empty if that is not offered.
Tensors rounded_gradients(Gate, const Tensor& gate, const Tensor& up, const Tensor& gradient);
}  // namespace optrush::fused
