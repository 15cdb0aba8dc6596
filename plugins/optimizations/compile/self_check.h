#pragma once
#include "compiled_unit.h"
#include "unit_graph.h"

namespace optrush::compile {
/// The batch with other values in its tensors, in the same memory layout; a tensor whose elements share
/// memory and the documents' starts stay. Documents keep their identity, though not their order.
Batch other_batch(Batch);

/// Compares a compiled unit with the function that it was made of, on other inputs than those of the trace:
/// output and every gradient. A tracer that saw a value as a constant, or lost a derivative, shows here.
/// Returns the worst difference, relative to the largest value of its tensor; an Error where it is too large.
double self_check(const CompiledUnit&, const UnitGraph&, const UnitFunction&, const Unit&, const Tensor& x,
                  const Batch&);
}  // namespace optrush::compile
