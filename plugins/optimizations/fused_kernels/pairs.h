#pragma once
#include <cstdint>
#include <optional>

#include "optrush/differentiable.h"

/// The operators of a block, forward and backward in one pass over memory each. Arithmetic is in fp32 (fp64
/// for fp64) for any type of the tensors, and rounded once.
namespace optrush::fused {
/// Whether a GPU kernel also finds the largest absolute value of a tensor that it writes
/// (kernel_parts/largest.h): of outputs that linears read, and of gradients of linears' outputs.
enum class Largest : uint8_t { unknown, noted };

/// {x, weight} to {x, RMSNorm of it}, in `low` if x is in fp32 and `low` is given, otherwise in x's type. The
/// backward adds the gradients of both.
Differentiable norm(double eps, std::optional<at::ScalarType> low = {}, Largest = Largest::unknown);
/// {x, delta, weight} to {x + delta, RMSNorm of it}.
Differentiable add_norm(double eps, std::optional<at::ScalarType> low = {}, Largest = Largest::unknown);
/// {q (B, H, S, K), k (B, G, S, K), cos, sin (B or 1, 1, S, K)} to {q, k rotated}.
Differentiable position();
/// {gate, up} to {SiLU(gate) * up}.
Differentiable swiglu(Largest = Largest::unknown);
/// {gate, up} to {GELU(gate) * up}, GELU by its approximation with tanh.
Differentiable geglu(Largest = Largest::unknown);
}  // namespace optrush::fused
