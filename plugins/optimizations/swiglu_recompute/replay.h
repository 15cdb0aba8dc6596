#pragma once
#include "optrush/ops.h"
#include "optrush/recipe.h"
#include "optrush/scopes.h"

namespace optrush {
/// The MLP out of whatever its parts are, keeping x alone: gate, up and swiglu run again in the backward,
/// under `scopes`; down does not, its backward is given the hidden activations anew. `scopes` must outlive
/// the graph.
Tensor recomputed_mlp(const Tensor& x, const Ops::MlpParts& parts, const Scopes& scopes);
}  // namespace optrush
