#pragma once
#include <array>
#include <compare>

#include "kernel_parts/processor.h"
#include "optrush/differentiable.h"
#include "optrush/ops.h"

namespace optrush::flash::cpu {
/// Whether these kernels take such elements here: fp32 and bf16 with AVX-512.
bool supports(at::ScalarType type);

/// Whether these kernels compute these inputs, and measurements found them faster than LibTorch's: causal
/// attention over whole sequences, with or without a sliding window, in a supported type, with enough tiles
/// for all threads. LibTorch computes all other inputs. It multiplies each query with blocks of 512 keys,
/// also with keys that it does not see.
bool takes(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs&);

/// Scores are multiplied by `scale`. `window`: as in AttentionArgs. `widens`: elements in bf16 are multiplied
/// in fp32; otherwise the processor needs AVX512-BF16.
struct Scores {
  double scale;
  int64_t window = 0;
  bool widens = fused::multiplies_faster_in_fp32();
  auto operator<=>(const Scores&) const = default;
};

/// Each tile of queries is multiplied with the keys that it sees: two products, and a softmax of whole rows
/// between them. q (B, H, S, K), k and v (B, G, S, K) in fp32 or bf16; the lse (B, H, S) in fp32. Sums are in
/// fp32. bf16 needs an even K.
AttentionOut forward(const Tensor& q, const Tensor& k, const Tensor& v, Scores);

/// {dq, dk, dv}. The weights of a tile are recomputed from the lse (arXiv:2205.14135, appendix B.4); five
/// products follow. A thread computes whole heads of keys. With more threads than heads, gradients of parts
/// are added: their order depends only on the number of threads. `lse_gradient` may be undefined.
std::array<Tensor, 3> backward(const Tensor& gradient, const Tensor& q, const Tensor& k, const Tensor& v,
                               const Tensor& out, const Tensor& lse, const Tensor& lse_gradient, Scores);

/// Forward and backward. Inputs are q, k and v; outputs are out and lse.
Differentiable attention(Scores);
}  // namespace optrush::flash::cpu
