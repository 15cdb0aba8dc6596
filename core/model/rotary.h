#pragma once
#include "optrush/batch.h"
#include "optrush/spec.h"

namespace optrush {
/// Inverse frequencies (K/2) of the rotary embedding, in fp64, and the factor of cosine and sine.
struct RotaryTable {
  Tensor frequencies;
  double attention_factor = 1;
};
/// Rescaled as LlamaSpec::rope_scaling says.
RotaryTable rotary_table(const LlamaSpec&);
/// Fills batch.cos and batch.sin (B, 1, S, K) in `dtype` from its positions.
void fill_rotary(Batch&, const RotaryTable&, at::ScalarType dtype);
}  // namespace optrush
