#pragma once
#include <cstdint>

#include "kernel_parts/type.h"

/// Arguments of the kernels: plain pointers, so that the files of vector code do not include torch.
namespace optrush::fused {
/// Rows (B, H, S, ..) by their strides, in elements; the last axis is dense.
struct Rows {
  const void* data = nullptr;
  int64_t batch = 0, head = 0, token = 0;
};
struct MutableRows {
  void* data = nullptr;
  int64_t batch = 0, head = 0, token = 0;
};

/// The gated delta rule (optrush/ops.h). q, k (B, G, S, K) and v (B, H, S, V) in `type`; log_decay and beta
/// (B, H, S) in the type of the arithmetic: fp64 if v is, otherwise fp32. GPU kernels take it by value.
struct DeltaRule {
  Type type;
  Rows q, k, v, log_decay, beta;
  const int32_t* documents = nullptr;  ///< (B, S), dense; null: each row is one document
  int64_t batch, key_heads, shared;    ///< B; G; heads of values for each head of keys
  int64_t positions, key_width, value_width;
};
inline constexpr int64_t kDeltaRuleChunk = 64;  ///< positions that the CPU kernels compute at a time
struct DeltaRuleForward {
  DeltaRule in;
  MutableRows out;
};
struct DeltaRuleBackward {
  DeltaRule in;
  Rows out_gradient;
  MutableRows q, k, v, log_decay, beta;  ///< gradients, in the inputs' types
};

/// SiLU of a causal convolution of each channel. x (B, S, C) and out dense, in `type`; weight (taps, C) in
/// the type of the arithmetic, the last tap for the position itself.
struct Convolution {
  Type type;
  const void *x, *weight;
  const int32_t* documents = nullptr;
  int64_t batch, positions, channels, taps;
};

namespace cpu {
/// Groups counted over the batch: b * G + g.
void delta_rule_forward(const DeltaRuleForward&, int64_t begin_group, int64_t end_group);
void delta_rule_backward(const DeltaRuleBackward&, int64_t begin_group, int64_t end_group);
/// Tokens counted over the batch: b * S + s.
void convolution_forward(const Convolution&, void* out, int64_t begin_token, int64_t end_token);
/// Writes `x_gradient` of these tokens, and adds their part of the gradient of the weight to `weight_part`,
/// (taps, C).
void convolution_backward(const Convolution&, const void* out_gradient, void* x_gradient, double* weight_part,
                          int64_t begin_token, int64_t end_token);
}  // namespace cpu

/// What kernels of the delta rule on a GPU pass to later kernels. All dense; chunk.cuh has the shapes.
struct DeltaRuleWorkspace {
  void *q_factors, *k_factors, *inverses, *scores, *states, *solutions;
  // of the backward
  void *dstates, *dsides, *dqk, *dkk, *dq, *dk, *dots, *dots_of_states, *dbeta, *dlog;
};

/// On the current stream of the current device.
namespace gpu {
inline constexpr int64_t kForwardLaunches = 4, kBackwardLaunches = 8;
/// Positions that the kernels compute at a time, and columns of keys and of values.
inline int64_t delta_rule_chunk(Type type) { return type == Type::fp64 ? 32 : 64; }
inline constexpr int64_t kSlice = 32, kSlab = 64;
/// The widest keys whose chunk fits shared memory.
inline int64_t widest_keys(Type type) { return type == Type::fp64 ? 128 : 256; }
void delta_rule_forward(const DeltaRuleForward&, const DeltaRuleWorkspace&);
void delta_rule_backward(const DeltaRuleBackward&, const DeltaRuleWorkspace&);

inline constexpr int64_t kMostTaps = 16;
/// Positions that a thread takes. Each run has its part of the gradient of the weight.
inline constexpr int64_t kConvolutionRun = 64;
inline int64_t convolution_runs(int64_t batch, int64_t positions) {
  return batch * ((positions + kConvolutionRun - 1) / kConvolutionRun);
}
void convolution_forward(const Convolution&, void* out);
/// `weight_parts` (runs, taps, C) in the type of the arithmetic; `weight_gradient` (C, taps).
void convolution_backward(const Convolution&, const void* out_gradient, void* x_gradient, void* weight_parts,
                          void* weight_gradient, Type weight_type);
}  // namespace gpu
}  // namespace optrush::fused
