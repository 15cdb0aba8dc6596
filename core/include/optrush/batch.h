#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "optrush/tensor.h"

namespace optrush {
/// The documents of packed rows. Attention does not cross the border between documents.
struct Segments {
  Tensor ids;  ///< (B, S) int32: number of the document, increasing along a row; undefined: each row is one
               ///< document
  /// (documents + 1) int32: start of each document in the B x S positions, and the end. The last documents
  /// may be empty, so that every batch has the same number.
  Tensor cu_seqlens;
  int64_t max_seqlen = 0;  ///< upper bound of the length of a document; the same in every batch of a run
  double pairs = 0;        ///< sum of the squared document lengths
  bool defined() const { return ids.defined(); }
};

/// One micro-batch of one rank. Labels are shifted by the data stage (labels[b, s] follows tokens[b, s]; -100
/// is ignored) and positions are explicit, so that packed rows and context parallelism may cut anywhere.
struct Batch {
  Tensor tokens;     ///< (B, S) int64
  Tensor labels;     ///< (B, S) int64; undefined: the head returns logits (B, S, V)
  Tensor positions;  ///< (B, S) int64
  /// (B, S, D) fp32 for a model with activations as input; the three tensors above are then undefined.
  Tensor input;
  Tensor cos, sin;  ///< (B or 1, 1, S, K) rotary tables of `positions`, from Model::prepare, per micro-batch
  Segments segments;
  /// (P) int64: the places in B x S that hold a token, in order; undefined: all do. The others are padding,
  /// which a mixture of experts leaves out. A prompt holds tokens, although its labels are ignored. P differs
  /// from batch to batch, so this tensor is no input of a trace.
  Tensor filled;
  /// Tensors that plugins add, by name. Tracing and recomputation include them.
  std::map<std::string, Tensor> named;
  int64_t first_sample =
      0;  ///< index of its first sequence in the run; the random numbers of its forward depend on it
  int64_t valid_tokens = 0;     ///< labels with a loss in this micro-batch; B x S without labels
  int64_t valid_sequences = 0;  ///< sequences with at least one such label
  /// The same counts for the whole step, over all ranks. Every loss sum is divided by token_count.
  double token_count = 1, sequence_count = 1;
  double filled_count = 1;  ///< positions with a token in the whole step

  /// Positions of this micro-batch that hold a token.
  int64_t filled_positions() const {
    const Tensor& all = tokens.defined() ? tokens : input;
    return filled.defined() ? filled.numel() : all.size(0) * all.size(1);
  }

  /// All tensors, defined or not, as the inputs of a trace.
  Tensors tensors() const {
    Tensors all = {tokens, labels, positions, input, cos, sin, segments.ids, segments.cu_seqlens};
    for (const auto& [name, tensor] : named) all.push_back(tensor);
    return all;
  }
};

/// The indices of the documents in each sequence, in order.
using Rows = std::vector<std::vector<int64_t>>;
}  // namespace optrush
