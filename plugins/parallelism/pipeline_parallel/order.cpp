#include "order.h"

#include <algorithm>

namespace optrush::pipeline_parallel {
namespace {
std::vector<Action> all_forwards_first(const Shape& shape) {
  std::vector<Action> order;
  for (const Work work : {Work::forward, Work::backward})
    for (int64_t micro = 0; micro < shape.micros; ++micro) order.push_back({work, 0, micro});
  return order;
}

/// Number k of a rank's forwards, or backwards: a group has one micro-batch for each rank. It passes one
/// chunk after another, forwards from the first chunk and backwards from the last. With one chunk that is
/// micro-batch k.
Action numbered(const Shape& shape, Work work, int64_t k) {
  const int64_t group = shape.stages();
  const int64_t chunk = k % group / shape.ranks, micro = k / group * shape.ranks + k % shape.ranks;
  return {work, work == Work::forward ? chunk : shape.chunks - 1 - chunk, micro};
}

/// Forwards until the first gradient can be there, then one backward for each forward.
std::vector<Action> one_for_one(const Shape& shape, int64_t rank) {
  const int64_t all = shape.micros * shape.chunks, behind = shape.ranks - 1 - rank;
  const int64_t ahead =
      std::min(all, shape.chunks == 1 ? behind : 2 * behind + (shape.chunks - 1) * shape.ranks);
  std::vector<Action> order;
  for (int64_t k = 0; k < ahead; ++k) order.push_back(numbered(shape, Work::forward, k));
  for (int64_t k = 0; k < all; ++k) {
    if (ahead + k < all) order.push_back(numbered(shape, Work::forward, ahead + k));
    order.push_back(numbered(shape, Work::backward, k));
  }
  return order;
}

/// Rank r delays the weight gradients of r micro-batches. It keeps the tensors for them, and has r forwards
/// fewer in flight than rank 0, so all ranks need similar memory. At the end of a step these gradients fill
/// its waits.
std::vector<Action> weights_later(const Shape& shape, int64_t rank) {
  std::vector<Action> order;
  for (const Action& action : one_for_one(shape, rank)) {
    order.push_back(action);
    if (action.work == Work::backward && action.micro >= rank)
      order.push_back({Work::weights, 0, action.micro - rank});
  }
  for (int64_t micro = std::max<int64_t>(0, shape.micros - rank); micro < shape.micros; ++micro)
    order.push_back({Work::weights, 0, micro});
  return order;
}
}  // namespace

std::vector<Action> order_of(const Shape& shape, int64_t rank) {
  switch (shape.schedule) {
    case Schedule::gpipe:
      return all_forwards_first(shape);
    case Schedule::one_f_one_b:
    case Schedule::interleaved:
      return one_for_one(shape, rank);
    case Schedule::zero_bubble:
      return weights_later(shape, rank);
  }
  return {};
}
}  // namespace optrush::pipeline_parallel
