#pragma once
#include <array>

#include "optrush/differentiable.h"
#include "optrush/ops.h"

namespace optrush::flash::cpu {
/// Whether this processor has products of such elements: fp32 with AVX-512, bf16 with AVX512-BF16.
bool supports(at::ScalarType type);

/// Whether these kernels compute it, and were measured to be faster than LibTorch's: causal attention over
/// whole sequences in a supported type, with enough tiles for all threads. LibTorch's kernel, which
/// has all else, multiplies each query with keys in blocks of 512, those behind it included.
bool takes(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs&);

/// Tiles of queries with the keys that they see: two products, and a softmax of whole rows in between. q (B,
/// H, S, K), k and v (B, G, S, K) in fp32 or bf16; the lse (B, H, S) in fp32. Sums are in fp32. bf16 needs an
/// even K.
AttentionOut forward(const Tensor& q, const Tensor& k, const Tensor& v, double scale);

/// {dq, dk, dv}. The weights of a tile are made again from the lse (arXiv:2205.14135, appendix B.4), then
/// five products. A thread has a head of keys for itself, or there are more threads than such heads, and
/// their gradients are added part by part: sums come in one order, which depends on the number of threads.
std::array<Tensor, 3> backward(const Tensor& gradient, const Tensor& q, const Tensor& k, const Tensor& v,
                               const Tensor& out, const Tensor& lse, double scale);

/// Both, of q, k and v, with the outputs out and lse; the lse has no derivative.
Differentiable attention(double scale);
}  // namespace optrush::flash::cpu
