#pragma once
#include <functional>
#include <utility>

#include "optrush/batch.h"
#include "optrush/ops.h"
#include "optrush/spec.h"
#include "optrush/tensor.h"

namespace optrush {
/// Inverse frequencies (one for each rotated pair) in fp64, and the factor of cosine and sine.
struct RotaryTable {
  Tensor frequencies;
  double attention_factor = 1;
};
/// The table for sequences of `seq_len` with LlamaSpec::rope_scaling applied. Only longrope depends on the
/// length.
RotaryTable rotary_table(const LlamaSpec&, int64_t seq_len = 0);
/// Cosine and sine (B, 1, S, K) of positions (B, S), in `dtype`; (1, 1, S, K) if the rows are one by
/// expand().
std::pair<Tensor, Tensor> rotary(const Tensor& positions, const RotaryTable&, at::ScalarType dtype);
/// Sets the tables of a micro-batch of sequences of `seq_len`, in `type`.
std::function<void(Batch&)> rotary_tables(const LlamaSpec&, int64_t seq_len, at::ScalarType type);
/// The rotation of a layer from the operator that rotates whole heads by the tables of the batch.
Ops::Position::Fn rotation_of(const LlamaSpec&, int64_t layer, Ops::Position::Fn rotate);
}  // namespace optrush
