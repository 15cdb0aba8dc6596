#pragma once
#include "optrush/differentiable.h"

/// The operators of Gated DeltaNet (arXiv:2412.06464), forward and backward. Arithmetic is in fp32 (fp64 for
/// fp64) for any type of the tensors, and rounded once.
namespace optrush::fused {
/// {q (B, G, S, K), k, v (B, H, S, V), log_decay (B, H, S), beta} and the documents (B, S), if there are
/// several in a row, to {the gated delta rule (B, H, S, V)}: Ops::DeltaRule. It keeps its inputs only.
Differentiable delta_rule();
/// {x (B, S, C), weight (C, 1, taps)} and the documents, if there are several in a row, to {SiLU of the
/// causal convolution}: Ops::Convolution.
Differentiable convolution();
}  // namespace optrush::fused
