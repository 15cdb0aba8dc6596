#pragma once
#include <memory>

#include "optrush/recipe.h"
#include "optrush/scopes.h"

namespace optrush::checkpointing {
/// A block as one node of the graph that keeps `x` and runs the block's forward again in the backward, under
/// the scopes and with the random numbers of the first time. Whatever the block is made of, a compiled one
/// too.
class Recompute {
 public:
  Tensor operator()(const std::shared_ptr<const UnitFunction>& forward, const Tensor& x, const Batch&,
                    const Scopes&);

 private:
  /// Requires a gradient, so that the node exists where `x` does not (a frozen embedding below it).
  Tensor anchor_;
};
}  // namespace optrush::checkpointing
