#pragma once
#include <cstdint>

#include "kernel_parts/type.h"

/// Arguments of the kernels: plain pointers, so that the files of vector code do not include torch. A CPU
/// kernel does a range of rows; a GPU kernel is launched over all.
namespace optrush::fused {
/// out = s * rstd * weight with s = x + delta, or s = x without delta; rstd = 1 / sqrt(mean(s^2) + eps).
/// Weight and rstd are in the type of the arithmetic: fp64 if x is, otherwise fp32.
struct NormForward {
  Type x_type, delta_type, out_type;
  const void *x, *delta, *weight;
  void *sum, *out, *rstd;
  int64_t rows, width;
  double eps;
  bool stream;               ///< stores pass by the cache
  float* largest = nullptr;  ///< on a GPU parts of the largest |out| (kernel_parts/largest.h), or null
};

/// gradient = d out / d s + sum_gradient; also in delta's type if it is another one. The gradient of the
/// weight is a sum over rows: each call adds its rows' part to `weight_part`.
struct NormBackward {
  Type x_type, delta_type, out_type;
  const void *s, *rstd, *weight, *out_gradient, *sum_gradient;  ///< sum_gradient: may be null
  void *gradient, *delta_gradient;                              ///< delta_gradient: null if of x's type
  int64_t rows, width;
  bool stream;
  float* largest = nullptr;  ///< as above, of delta's gradient
};

/// Heads (B, H, S, K) by their strides; the last axis is dense.
struct Heads {
  const void* in;
  void* out;
  int64_t heads, in_batch, in_head, in_token, out_batch, out_head, out_token;
};
/// Rotates q and k by the tables, or back. Tables (B or 1, 1, S, K) in the type of the arithmetic.
struct Rotate {
  Type type;
  Heads parts[2];
  const void *cos, *sin;
  int64_t table_batch, table_token;  ///< strides
  int64_t batch, tokens, width;
  bool back;
  bool stream;
};

/// The activation of the gate, x * sigmoid(argument of x): x of SiLU, 2 sqrt(2 / pi) (x + 0.044715 x^3) of
/// GELU with tanh (arXiv:1606.08415), as (1 + tanh(z)) / 2 = sigmoid(2 z).
enum class Gate : uint8_t { silu, gelu_tanh };

/// out = activation(gate) * up
struct GluForward {
  Type type;
  Gate activation;
  const void *gate, *up;
  void* out;
  int64_t count;
  bool stream;
  float* largest = nullptr;  ///< as above
};
/// The gradients may be columns of a wider tensor: rows of `width` numbers that start `stride` numbers apart.
struct GluBackward {
  Type type;
  Gate activation;
  const void *gate, *up, *out_gradient;
  void *gate_gradient, *up_gradient;
  int64_t count, width, stride;
  bool stream;
  float* largest = nullptr;  ///< as above, of the gate's gradient, then of up's
};

/// A matrix (rows, columns) in 8 bits, as gpu/rounded.cuh has it, with the same layout.
struct RoundedMatrix {
  const float* past;
  float* seen;
  uint8_t *values, *transposed;  ///< transposed: or null
  float* scale;
  long long past_count, rows, columns, all_columns;
};
/// Of the product, or of the gradients of gate and up beside each other. The numbers of rows and of columns
/// are multiples of 16.
struct RoundedGlu {
  Type type;  ///< not fp64
  Gate activation;
  const void *gate, *up, *out_gradient;  ///< out_gradient: null for the forward
  int64_t mantissa;                      ///< bits: 3 of e4m3, 2 of e5m2
  RoundedMatrix to;
};

namespace cpu {
void norm_forward(const NormForward&, int64_t begin_row, int64_t end_row);
/// `weight_part`: `width` numbers, added to.
void norm_backward(const NormBackward&, int64_t begin_row, int64_t end_row, double* weight_part);
/// Tokens counted over the batch: b * S + s.
void rotate(const Rotate&, int64_t begin_token, int64_t end_token);
void glu_forward(const GluForward&, int64_t begin, int64_t end);
void glu_backward(const GluBackward&, int64_t begin, int64_t end);
}  // namespace cpu

/// On the current stream of the current device.
namespace gpu {
void norm_forward(const NormForward&);
/// The number of blocks of norm_backward. Each needs `width` numbers of `weight_parts`.
int64_t norm_backward_blocks(const NormBackward&);
void norm_backward(const NormBackward&, void* weight_parts, int64_t blocks, void* weight_gradient,
                   Type weight_type);
/// Whether rounded_norm supports these: addresses of 16 bytes, and rows that fit the memory of a block.
bool rounds(const NormForward&);
/// The result in e4m3 in place of `out`, which is not read. The numbers of rows and of columns are multiples
/// of 16.
void rounded_norm(const NormForward&, const RoundedMatrix& to);
void rotate(const Rotate&);
void glu_forward(const GluForward&);
void glu_backward(const GluBackward&);
void rounded_glu(const RoundedGlu&);
}  // namespace gpu
}  // namespace optrush::fused
