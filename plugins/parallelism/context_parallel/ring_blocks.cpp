#include "ring_blocks.h"

#include <algorithm>

#include "slices.h"

namespace optrush::context_parallel {
namespace {
std::vector<Block> without_window(int64_t length, int64_t rank, int64_t owner) {
  if (owner == rank) return {{.queries = length, .keys = length, .causal = true}};
  const int64_t half = length / 2;
  if (owner < rank) return {{.queries = length, .keys = half}};
  return {{.first_query = half, .queries = half, .keys = length}};
}

/// Adds the block that `pair` needs. Queries and keys are stretches of equal length, and the keys lie
/// `distance` positions before the queries.
void add_pair(std::vector<Block>& blocks, Block pair, int64_t distance, int64_t window) {
  const int64_t length = pair.queries;
  const int64_t nearest = distance - (length - 1), furthest = distance + length - 1;
  if (distance < 0 || nearest >= window) return;
  pair.causal = distance == 0;
  if (pair.causal) {
    pair.window = window;
  } else if (furthest >= window) {
    // The window hides all keys but the last `corner` ones, and only the first queries see these.
    const int64_t hidden = std::max<int64_t>(0, distance - window + 1), corner = length - hidden;
    pair.queries = pair.keys = corner;
    pair.first_key += hidden;
    pair.window = window - distance + hidden;
  }
  blocks.push_back(pair);
}
}  // namespace

std::vector<Block> blocks_of(const RingShape& shape, int64_t rank, int64_t owner) {
  const int64_t whole = shape.length * shape.ranks;
  if (shape.window == 0 || shape.window >= whole) return without_window(shape.length, rank, owner);
  const auto queries = slices_of(whole, shape.ranks, rank, /*zigzag=*/true);
  const auto keys = slices_of(whole, shape.ranks, owner, /*zigzag=*/true);
  std::vector<Block> blocks;
  int64_t first_query = 0;
  for (const Stretch& query : queries) {
    int64_t first_key = 0;
    for (const Stretch& key : keys) {
      const Block pair{
          .first_query = first_query, .queries = query.length, .first_key = first_key, .keys = key.length};
      add_pair(blocks, pair, query.begin - key.begin, shape.window);
      first_key += key.length;
    }
    first_query += query.length;
  }
  return blocks;
}
}  // namespace optrush::context_parallel
