#pragma once
#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstddef>
#include <optional>

#include "cpu/operands.h"

namespace optrush::flash::cpu {
/// Queries of a tile. Their scores with all keys of a long sequence fit into the L2 cache.
inline constexpr int64_t kTile = 32;

/// Minimum number of tiles in a part. Each part copies keys and values into the layout of its products.
inline constexpr int64_t kTilesOfPart = 4;

/// B batch, H query heads, G heads of keys and values, S positions, K width of a head. A query sees `window`
/// keys, itself included.
struct Sizes {
  int64_t batch, heads, groups, positions, width, window;
  /// `window`: as in AttentionArgs.
  Sizes(const Tensor& q, const Tensor& k, int64_t window)
      : batch(q.size(0)),
        heads(q.size(1)),
        groups(k.size(1)),
        positions(q.size(2)),
        width(q.size(3)),
        window(window == 0 ? positions : std::min(window, positions)) {}
  int64_t shared() const { return heads / groups; }
  int64_t tiles() const { return (positions + kTile - 1) / kTile; }
  /// Tiles of all query heads that share a head of keys.
  int64_t shared_tiles() const { return shared() * tiles(); }
  /// Strides, in whole vectors, of rows with all positions and of rows with the keys of a tile: window + 31,
  /// and up to 15 more, because `first` is rounded down.
  int64_t position_row() const { return whole_vectors(positions); }
  int64_t score_row() const { return std::min(position_row(), whole_vectors(window + kTile) + kVector); }

  static constexpr int64_t kVector = 16;
  static int64_t whole_vectors(int64_t count) { return (count + kVector - 1) / kVector * kVector; }
};

inline bool fills_threads(int64_t tasks) {
  const int64_t threads = at::get_num_threads(), rounds = (tasks + threads - 1) / threads;
  return 4 * tasks >= 3 * rounds * threads;
}

/// The number of parts that the tiles of a head of keys are split into, so that every thread has work. None
/// if there are too few tiles.
inline std::optional<int64_t> parts_of(const Sizes& sizes) {
  const int64_t most = std::max<int64_t>(1, sizes.shared_tiles() / kTilesOfPart);
  for (int64_t parts = 1; parts <= most; ++parts)
    if (fills_threads(sizes.batch * sizes.groups * parts)) return parts;
  return {};
}

/// A part of the tiles of a head of keys.
struct Task {
  int64_t batch, group, part;
};

/// The queries [begin, end), which see only keys in [first, end). Column 0 of its scores is the key `first`,
/// a multiple of kVector.
struct Tile {
  int64_t begin, end, first;
  int64_t size() const { return end - begin; }
  int64_t keys() const { return end - first; }
};
inline Tile tile_of(const Sizes& sizes, int64_t index) {
  const int64_t begin = index * kTile, first = std::max<int64_t>(0, begin + 1 - sizes.window);
  return {begin, std::min(begin + kTile, sizes.positions), first / Sizes::kVector * Sizes::kVector};
}

/// The scores of row i of a tile that belong to the keys of its query.
inline Range visible(const Sizes& sizes, const Tile& tile, int64_t i) {
  const int64_t end = tile.begin + i + 1 - tile.first;
  return {std::max<int64_t>(0, end - sizes.window), end};
}

/// The workspaces of a call, one a thread. LibTorch allocates them, so that they are counted.
template <class Workspace>
class Workspaces {
 public:
  Workspaces(const Sizes& sizes, int64_t parts, const Tensor& like) : sizes_(sizes), parts_(parts) {
    Arena counting;
    Workspace(sizes, counting);
    memory_ = at::empty({at::get_num_threads(), counting.used()}, like.options().dtype(at::kByte));
  }

  /// Calls visit(workspace, task). One thread computes a task.
  template <class Visit>
  void each_task(const Visit& visit) {
    auto* const begin = reinterpret_cast<std::byte*>(memory_.data_ptr<uint8_t>());
    const int64_t tasks = sizes_.batch * sizes_.groups * parts_;
    at::parallel_for(0, tasks, 1, [&](int64_t first, int64_t last) {
      Arena arena(begin + at::get_thread_num() * memory_.stride(0));
      Workspace workspace(sizes_, arena);
      for (int64_t task = first; task < last; ++task)
        visit(workspace, Task{task / parts_ / sizes_.groups, task / parts_ % sizes_.groups, task % parts_});
    });
  }

 private:
  Sizes sizes_;
  int64_t parts_;
  Tensor memory_;
};

/// Calls visit(query head, tile) for the tiles of a task, the last positions first. Parts take tiles in
/// turn, so all parts have about the same work.
template <class Visit>
void each_tile(const Sizes& sizes, int64_t parts, const Task& task, const Visit& visit) {
  for (int64_t i = task.part; i < sizes.shared_tiles(); i += parts)
    visit(task.group * sizes.shared() + i % sizes.shared(),
          tile_of(sizes, sizes.tiles() - 1 - i / sizes.shared()));
}
}  // namespace optrush::flash::cpu
