#pragma once
#include <string>
#include <vector>

#include "optrush/param.h"

namespace optrush {
/// The elements of `layout` of a parameter lie at offset `at` of a shard.
struct Segment {
  Param* param = nullptr;
  Layout layout;
  int64_t at = 0;
};

/// What an optimizer updates: a whole local parameter, or one rank's piece of a flat one. `segments` maps it
/// to logical elements: that is how state is saved and loaded at another number of ranks.
struct Shard {
  Tensor data, grad;
  /// L2 norms of the gradient's parts, where it was used and freed before the step's end: see
  /// Gradients::release.
  Tensors released;
  bool grad_in_buffer = false;  ///< a part of a buffer that stays from step to step
  bool decay = true;
  std::vector<Segment> segments;
  /// Mesh dimensions whose ranks hold different elements. Along the others they hold copies.
  std::vector<std::string> split_over;

  /// The same for a shard in every call of a run, for what an optimizer keeps by shard.
  const void* key() const { return data.unsafeGetTensorImpl(); }

  /// A segment's elements of `data`, `grad` or another tensor of this shard, flat.
  static Tensor part(const Tensor& of_shard, const Segment& segment) {
    return of_shard.flatten().narrow(0, segment.at, segment.layout.numel());
  }
};
}  // namespace optrush
