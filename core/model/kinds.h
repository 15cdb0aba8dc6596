#pragma once
#include "model/model.h"
#include "spec/collective_spec.h"
#include "spec/operator_spec.h"

// Declares each kind of model.
namespace optrush {
class Recipe;

/// `seq_len`: length of the sequences, of which rotary frequencies may depend; 0: any.
Model declare_llama(const LlamaSpec&, Params&, at::ScalarType dtype, int64_t seq_len = 0);
/// Demands the features of attention that this decoder needs for sequences of `seq_len`, and counts the rows
/// of its routers.
void edit_for_llama(const LlamaSpec&, int64_t seq_len, Recipe&);

Model declare_operator(const OperatorSpec&, Params&, at::ScalarType dtype);

/// Declares a model with one trained number, so that the run is a training. The calls are edits of the
/// recipe.
Model declare_collective(const CollectiveSpec&, Params&, at::ScalarType dtype);
/// Puts all ranks along a mesh dimension that splits no data, and calls the collective in each forward.
/// Checks its result before the first step. Throws an Error for a single rank.
void call_collective(const CollectiveSpec&, Recipe&);
}  // namespace optrush
