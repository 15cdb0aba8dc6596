#pragma once
#include <memory>

#include "optrush/recipe.h"
#include "optrush/scopes.h"

namespace optrush::checkpointing {
/// A block as one node of the graph. It keeps `x` and runs the block's forward again in the backward,
/// under the same scopes and with the same random numbers. It works for every block, compiled ones
/// included.
class Recompute {
 public:
  Tensor operator()(const std::shared_ptr<const UnitFunction>& forward, const Tensor& x, const Batch&,
                    const Scopes&);

 private:
  /// Requires a gradient, so that the node exists even if `x` requires none (a frozen embedding below it).
  Tensor anchor_;
};
}  // namespace optrush::checkpointing
