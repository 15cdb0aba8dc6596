#pragma once
#include <cstdint>
#include <vector>

namespace optrush::context_parallel {
/// One call of the kernel of a ring: queries of this rank and keys of another, by their places in the parts
/// of the sequence that the ranks have. If it is not causal, a query at place i sees the keys from place i -
/// window + 1 on, or all keys without a window.
struct Block {
  int64_t first_query = 0, queries = 0, first_key = 0, keys = 0;
  bool causal = false;
  int64_t window = 0;  ///< 0: none
};

/// A causal ring over sequences in zigzag (slices.h).
struct RingShape {
  int64_t ranks = 1;
  int64_t length = 0;  ///< positions of a rank
  int64_t window = 0;  ///< positions that a query sees, its own among them; 0: all before it
};

/// The blocks that `rank` computes with the keys of `owner`. Each visible pair of a query and a key is in one
/// block. The list is empty if the window hides all pairs. Without a window there is one block, of equal size
/// on all ranks. With a window, a block is a pair of stretches, or the corner of the pair that the window
/// reaches.
std::vector<Block> blocks_of(const RingShape&, int64_t rank, int64_t owner);
}  // namespace optrush::context_parallel
