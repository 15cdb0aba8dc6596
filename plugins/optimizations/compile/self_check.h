#pragma once
#include "compiled_unit.h"
#include "unit_graph.h"

namespace optrush::compile {
/// The batch with other values in its tensors, in the same memory layout; a tensor whose elements share
/// memory and the documents' starts stay. Documents keep their identity, though not their order.
Batch other_batch(Batch);

/// Compares a compiled unit with its original function: output and every gradient. The inputs differ from the
/// trace. It finds values that the tracer saw as constants, and lost derivatives. Returns the worst
/// difference, relative to the largest value of its tensor; an Error if it is too large.
double self_check(const CompiledUnit&, const UnitGraph&, const UnitFunction&, const Unit&, const Tensor& x,
                  const Batch&);
}  // namespace optrush::compile
