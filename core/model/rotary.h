#pragma once
#include <utility>

#include "optrush/spec.h"
#include "optrush/tensor.h"

namespace optrush {
/// Inverse frequencies (K/2) of the rotary embedding in fp64, and the factor of cosine and sine.
struct RotaryTable {
  Tensor frequencies;
  double attention_factor = 1;
};
/// The table with LlamaSpec::rope_scaling applied.
RotaryTable rotary_table(const LlamaSpec&);
/// Cosine and sine (B, 1, S, K) of positions (B, S), in `dtype`; (1, 1, S, K) if the rows are one by
/// expand().
std::pair<Tensor, Tensor> rotary(const Tensor& positions, const RotaryTable&, at::ScalarType dtype);
}  // namespace optrush
