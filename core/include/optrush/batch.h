#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "optrush/tensor.h"

namespace optrush {
/// The documents of packed rows: attention stays inside each.
struct Segments {
  Tensor ids;  ///< (B, S) int32: number of the document, rising along a row; undefined: a row is one
  /// (documents + 1) int32: where each begins among the B x S positions, and the end. The last documents may
  /// be of nothing, so that every batch has as many.
  Tensor cu_seqlens;
  int64_t max_seqlen = 0;  ///< no document has more positions; the same in every batch of a run
  double pairs = 0;        ///< of positions in one document, any order: the squares of the lengths, added up
  bool defined() const { return ids.defined(); }
};

/// One micro-batch of one rank. Labels are shifted by the data stage (labels[b, s] follows tokens[b, s]; -100
/// is ignored) and positions are explicit, so that packed rows and context parallelism may cut anywhere.
struct Batch {
  Tensor tokens;     ///< (B, S) int64
  Tensor labels;     ///< (B, S) int64; undefined: the head returns logits (B, S, V)
  Tensor positions;  ///< (B, S) int64
  /// (B, S, D) fp32 for a model that takes activations: the three above are then undefined.
  Tensor input;
  Tensor cos, sin;  ///< (B, 1, S, K) rotary tables of `positions`, made once a micro-batch by Model::prepare
  Segments segments;
  /// What plugins add, by name. Tracers and recomputation see them as they see the others.
  std::map<std::string, Tensor> named;
  int64_t first_sample =
      0;  ///< number of its first sequence in the run: what its forward draws depends on it
  int64_t valid_tokens = 0;     ///< labels that count in this micro-batch; without labels B x S
  int64_t valid_sequences = 0;  ///< of which a label counts
  /// The same of the whole step: all micro-batches, all ranks. Every loss sum is divided by the tokens.
  double token_count = 1, sequence_count = 1;

  /// Every tensor, defined or not: a trace takes them as inputs.
  Tensors tensors() const {
    Tensors all = {tokens, labels, positions, input, cos, sin, segments.ids, segments.cu_seqlens};
    for (const auto& [name, tensor] : named) all.push_back(tensor);
    return all;
  }
};

/// The documents that lie in each sequence, one behind the other, by number.
using Rows = std::vector<std::vector<int64_t>>;
}  // namespace optrush
