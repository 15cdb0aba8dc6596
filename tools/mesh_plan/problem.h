#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "optrush/spec.h"

namespace optrush::mesh_plan {
/// Number types of a training. mixed: fp32 weights, bf16 matrix products. bf16: bf16 weights, gradients and
/// residual stream, fp32 masters. fp8: like bf16, with fp8 products in blocks.
enum class Precision : uint8_t { fp32, mixed, bf16, fp8 };

const std::vector<std::string>& precision_names();
/// The precision with this name. An error names the nearest one.
Precision precision_from(const std::string& name);
std::string to_string(Precision);

/// Bytes of a number by purpose.
struct NumberBytes {
  double weight = 4;      ///< a stored weight
  double copy = 0;        ///< a copy of a matrix for products beside the weight, for a step
  double operand = 4;     ///< a matrix as products read it and as shards are gathered
  double gradient = 4;    ///< a gradient of one micro-batch
  double kept = 4;        ///< a gradient that several micro-batches add up
  double optimizer = 8;   ///< AdamW's moments, and masters of bf16 weights
  double stream = 4;      ///< the residual stream
  double activation = 4;  ///< a value inside a block

  explicit NumberBytes(Precision);
  /// Bytes of a gradient at the end of a step of this many micro-batches.
  double gradients(int64_t micro_batches) const { return micro_batches > 1 ? kept : gradient; }
  /// Bytes that an update of one parameter reads and writes.
  double update(int64_t micro_batches) const;
};

/// The training problem.
struct TrainingProblem {
  LlamaSpec model;
  Precision precision = Precision::bf16;
  int64_t seq_len = 8192;
  int64_t global_batch = 1024;  ///< sequences of a step
};

/// Parameters and FLOPs of the parts of a decoder, computed from its dimensions (core/model/llama.cpp
/// declares the same parts). FLOPs are of one token's forward; a multiplication and addition are two.
struct DecoderWork {
  double blocks = 0, width = 0, heads = 0, key_heads = 0;
  double query_width = 0, key_width = 0;  ///< query heads, and key/value heads, times the head size
  // Means over the blocks.
  double ffn_width = 0;                      ///< of the SwiGLUs that a token passes
  double whole_ffn_width = 0;                ///< of the SwiGLUs that every token passes
  double shared_ffn_width = 0;               ///< part of it: the shared experts of mixtures
  double mixtures = 0;                       ///< 1 for a mixture
  double shared_experts = 0;                 ///< 1 for a mixture with a shared expert
  double experts = 0, routers = 0;           ///< parameters
  double rows = 0;                           ///< experts that a token passes
  double block_vectors = 0, final_norm = 0;  ///< parameters of norms
  double embedding = 0;                      ///< vocabulary times width; the head's matrix has the same size
  bool tied = false;                         ///< the head's matrix is the embedding

  explicit DecoderWork(const LlamaSpec&);

  /// Parameters of the matrices that every token is multiplied by.
  double whole_matrices() const {
    return width * (2 * query_width + 2 * key_width + 3 * whole_ffn_width) + routers;
  }
  double block_matrices() const { return whole_matrices() + experts; }
  double parameters() const;
  double block_products() const { return 2 * (whole_matrices() + 3 * width * (ffn_width - whole_ffn_width)); }
  /// Causal attention: each position needs half of the sequence, in two products.
  double block_attention(double seq_len) const { return 2 * query_width * seq_len; }
  double head_products() const { return 2 * embedding; }
  /// FLOPs of a token in the project's `mfu`: 6 P + 12 L S heads head_dim.
  double mfu_flops(double seq_len) const;

 private:
  void add_mlp(const LlamaSpec&,
               int64_t layer);  ///< adds a layer to the sums over the blocks
};
}  // namespace optrush::mesh_plan
