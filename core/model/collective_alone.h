#pragma once
#include "model/model.h"
#include "optrush/recipe.h"
#include "spec/collective_spec.h"

namespace optrush {
/// Declares a model with one trained number, so that the run is a training. The calls are edits of the
/// recipe.
Model declare_collective(const CollectiveSpec&, Params&, at::ScalarType dtype);
/// Puts all ranks along a mesh dimension that splits no data, and calls the collective in each forward.
/// Checks its result before the first step. Throws an Error for a single rank.
void call_collective(const CollectiveSpec&, Recipe&);
}  // namespace optrush
