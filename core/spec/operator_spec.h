#pragma once
#include <string>

#include "optrush/spec.h"
#include "spec/fields.h"
#include "spec/spec_json.h"

namespace optrush {
/// One operator of the block alone, or its MLP, on random inputs of (micro_batch, seq_len, dim) each.
struct OperatorSpec {
  std::string op;
  int64_t dim = 1024, n_heads = 16;
  int64_t ffn_dim = 4096;      ///< of mlp
  int64_t vocab_size = 32000;  ///< of head_loss
  int64_t repeat = 1;          ///< one after the other, each on what the one before gives

  /// Tensors of (micro_batch, seq_len, dim) that it starts from.
  int64_t operands() const;
};
const Fields<OperatorSpec>& operator_fields();
/// An Error where heads do not divide, or a head loss is to be repeated.
OperatorSpec operator_from_json(const Json&, const std::string& where);
Json to_json(const OperatorSpec&);

/// What a step of an operator alone has to do, whatever does it: the bytes that any implementation must move
/// and the FLOPs of its formulas (docs/guides/operators_and_hardware.md).
struct OperatorWork {
  struct Pass {
    double bytes = 0, flops = 0;
  };
  Pass forward, backward;
};
OperatorWork operator_work(const OperatorSpec&, const TrainSpec&);
}  // namespace optrush
