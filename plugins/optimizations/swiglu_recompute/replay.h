#pragma once
#include "optrush/ops.h"
#include "optrush/recipe.h"
#include "optrush/scopes.h"

namespace optrush {
/// The MLP with any parts. It keeps only x. The backward runs gate, up and swiglu again under `scopes`. It
/// does not run down again: the backward of down gets the recomputed hidden activations. `scopes` must
/// outlive the graph.
Tensor recomputed_mlp(const Tensor& x, const Ops::MlpParts& parts, const Scopes& scopes);
}  // namespace optrush
