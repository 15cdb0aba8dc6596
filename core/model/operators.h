#pragma once
#include "optrush/differentiable.h"
#include "optrush/ops.h"
#include "optrush/spec.h"

/// The plain operators, as in the papers: single device, plain tensors, no optimization. Every rung is
/// measured and checked against them. Norms, softmax and loss compute in fp32 or wider (fp64 stays fp64);
/// results have x's type.
namespace optrush::plain {
/// RMSNorm (arXiv:1910.07467), x / sqrt(mean(x^2) + eps) * weight, or LayerNorm (arXiv:1607.06450). Weight
/// and bias may be undefined.
Tensor norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const NormArgs&);
/// Rotary position embedding (arXiv:2104.09864). It rotates the two halves against each other, as Hugging
/// Face's checkpoints require. x (B, H, S, K), cos and sin (B or 1, 1, S, K).
Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin);
/// x (B, S, H width) as heads (B, H, S, width).
Tensor split_in_heads(const Tensor& x, int64_t width);
/// softmax(q k^T scale) v with the whole S x S matrix, and soft-capped scores if a cap is given. Query heads
/// of one key/value head are stacked along the sequence (grouped-query attention, arXiv:2305.13245), so keys
/// and values are not copied.
AttentionOut attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs&);
AttentionForwardBackward attention_forward_backward();
/// SiLU(gate) * up (arXiv:2002.05202).
Tensor swiglu(const Tensor& gate, const Tensor& up);
/// GELU(gate) * up (arXiv:2002.05202), exact or with its approximation by tanh, or the unit of clamped_silu.
Tensor geglu(const Tensor& gate, const Tensor& up, Activation);
/// relu(x)^2 (arXiv:2109.08668).
Tensor squared_relu(const Tensor& x);
/// `cap` tanh(x / `cap`) (arXiv:2408.00118, section 2), in accumulate_type(); x itself if cap is 0.
Tensor soft_capped(const Tensor& x, double cap);
/// Sum of -log softmax(logits)[label] over labels that are not -100. logits (B, S, V), labels (B, S).
Tensor cross_entropy_sum(const Tensor& logits, const Tensor& labels);
/// The same for a part of the vocabulary, with logits (B, S, end - begin). Inputs: logits and labels.
Differentiable cross_entropy_of_part(const VocabularyPart&);
/// The base of Ops::Routing. In a token's order of experts the one of the largest choice is first.
Routed routed(const Tensor& logits, const RoutingArgs&);
/// fp64 if x is fp64, otherwise fp32.
at::ScalarType accumulate_type(const Tensor& x);
}  // namespace optrush::plain
