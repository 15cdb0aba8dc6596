#pragma once
#include "optrush/ops.h"

namespace optrush::plain {
/// The base of Ops::DeltaRule. It computes `chunk` positions at a time, in accumulate_type(v) also under
/// autocast.
Tensor gated_delta_rule(const DeltaRuleInputs&, int64_t chunk = 64);

/// For each channel, the sum over the last positions of a document, weighted: x (B, S, C), weight (C, 1,
/// positions), documents (B, S) as in DeltaRuleInputs.
Tensor causal_convolution(const Tensor& x, const Tensor& weight, const Tensor& documents);
}  // namespace optrush::plain
