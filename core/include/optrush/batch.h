#pragma once
#include <array>

#include "optrush/tensor.h"

namespace optrush {
/// One micro-batch of one rank. Labels are shifted by the data stage (labels[b, s] follows tokens[b, s]; -100
/// is ignored) and positions are explicit, so that packing and context parallelism may cut anywhere.
struct Batch {
  Tensor tokens;     ///< (B, S) int64
  Tensor labels;     ///< (B, S) int64; undefined: the head returns logits (B, S, V)
  Tensor positions;  ///< (B, S) int64
  /// (B, S, D) fp32 for a model that takes activations: the three above are then undefined.
  Tensor input;
  Tensor cos, sin;  ///< (B, 1, S, K) rotary tables of `positions`, made once a micro-batch by Model::prepare
  int64_t valid_tokens = 0;  ///< labels that count in this micro-batch; without labels B x S
  /// The same of the whole step: all micro-batches, all ranks of Mesh::data(). Every loss sum is
  /// divided by it.
  double token_count = 1;

  /// Every tensor, defined or not: a trace takes them as inputs.
  std::array<Tensor, 6> tensors() const { return {tokens, labels, positions, input, cos, sin}; }
};
}  // namespace optrush
