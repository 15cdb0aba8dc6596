#pragma once
#include <cstdint>
#include <vector>

namespace optrush::context_parallel {
/// One call of the kernel of a ring: queries of this rank and keys of another, by their places in the parts
/// of the sequence that the ranks have. Not causal: a query at place i sees the keys from place i - window +
/// 1 on, all where there is no window.
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

/// What `rank` computes with the keys of `owner`, each visible pair in one block; none where the window hides
/// all of them. Without a window it is one block, as large on each rank. With one, a block is a pair of
/// stretches or the corner of it that the window reaches.
std::vector<Block> blocks_of(const RingShape&, int64_t rank, int64_t owner);
}  // namespace optrush::context_parallel
