#pragma once
#include <set>

#include "operators.h"
#include "optrush/mesh.h"

namespace optrush::checkpointing {
/// Cost of keeping and of recomputing one forward of a block.
struct BlockCost {
  struct Operator {
    std::string slot;
    int64_t number = 0;  ///< of the call in the block
    int64_t bytes = 0;   ///< additional memory if its results are kept
    double flops = 0;    ///< of one run, from its shapes
  };
  std::vector<Operator> operators;
  int64_t input = 0;  ///< bytes of the block's input, which are always kept
  int64_t plain = 0;  ///< bytes that the block keeps without any recomputation
};

/// Runs the block's forward once and lists the tensors that it saves. They are freed, and the run is not
/// counted. `resident`: tensors that stay in memory anyway (parameters).
BlockCost cost_of(const UnitFunction& forward, const Tensor& x, const Batch&, const Tensors& resident,
                  Operators::Block&);

/// The largest cost on any of the ranks that run this block. All ranks must choose alike: a block that runs
/// again on some ranks only would start collectives that the others do not expect.
void agree_on(BlockCost&, const Mesh&);

/// The choice for one block.
struct BlockChoice {
  bool plain = false;      ///< keeps everything: nothing is recomputed
  std::set<int64_t> kept;  ///< otherwise: numbers of the operator calls that keep their results
};

/// For `blocks` equal blocks: the most FLOPs per byte first, until `budget` is spent. It uses counts and no
/// times, so every run of a spec makes the same choice.
struct BudgetPlan {
  std::vector<BlockChoice> blocks;
  int64_t bytes = 0;  ///< that the blocks keep
};
/// `budget`: up to 1 a fraction of the bytes that the plain blocks keep; above 1, bytes. Throws an Error if
/// not even the blocks' inputs fit.
BudgetPlan spend(double budget, const BlockCost&, int64_t blocks);
}  // namespace optrush::checkpointing
