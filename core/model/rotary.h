#pragma once
#include "optrush/batch.h"
#include "optrush/spec.h"

namespace optrush {
/// Inverse frequencies (K/2) of the rotary embedding, in fp64, rescaled as Llama 3.1 does where the spec says
/// so.
Tensor inverse_frequencies(const LlamaSpec&);
/// Fills batch.cos and batch.sin (B, 1, S, K) in `dtype` from its positions.
void fill_rotary(Batch&, const Tensor& inverse_frequencies, at::ScalarType dtype);
}  // namespace optrush
