#pragma once
#include "model/model.h"
#include "optrush/recipe.h"
#include "spec/collective_spec.h"

namespace optrush {
/// A loss of one trained number, so that a run is a training like any other; the calls are the recipe's.
Model declare_collective(const CollectiveSpec&, Params&, at::ScalarType dtype);
/// Lays all ranks along a dimension of their own, which splits no data, and calls the collective in each
/// forward. Before the first step its result is held against what it has to be. An Error where there is one
/// rank.
void call_collective(const CollectiveSpec&, Recipe&);
}  // namespace optrush
