#pragma once
#include <string>

#include "spec/spec_json.h"

namespace optrush {
/// A run of one operator of the block, or of its MLP, on random inputs of shape (micro_batch, seq_len, dim).
struct OperatorSpec {
  std::string op;
  int64_t dim = 1024, n_heads = 16;
  int64_t ffn_dim = 4096;      ///< only for mlp
  int64_t vocab_size = 32000;  ///< only for head_loss
  int64_t repeat = 1;          ///< consecutive calls, each on the output of the one before

  /// Number of input tensors of shape (micro_batch, seq_len, dim).
  int64_t operands() const;
};
/// Reading throws an Error if n_heads does not divide dim, or if head_loss is repeated.
Record<OperatorSpec> record_of(const OperatorSpec*);

/// The work that any implementation of an operator must do in a step: bytes to move, and the FLOPs of its
/// formulas (docs/guides/operators_and_hardware.md).
struct OperatorWork {
  struct Pass {
    double bytes = 0, flops = 0;
  };
  Pass forward, backward;
};
OperatorWork operator_work(const OperatorSpec&, const TrainSpec&);
}  // namespace optrush
