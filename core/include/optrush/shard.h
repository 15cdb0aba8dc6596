#pragma once
#include <span>
#include <string>
#include <vector>

#include "optrush/param.h"

namespace optrush {
class Mesh;

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
  std::vector<std::string> sharded_over;

  /// The same for a shard in every call of a run, for what an optimizer keeps by shard.
  const void* key() const { return data.unsafeGetTensorImpl(); }

  /// A segment's elements of `data`, `grad` or another tensor of this shard, flat.
  static Tensor part(const Tensor& of_shard, const Segment& segment) {
    return of_shard.flatten().narrow(0, segment.at, segment.layout.numel());
  }
};

/// Tensors in lists of one device and one type each, as multi-tensor kernels take them: shards may lie in the
/// host's memory beside a GPU.
std::vector<Tensors> alike(Tensors);

/// The final gradients of a step on this rank, and what takes every rank to know of them. All ranks make the
/// same calls, also one that has no gradient.
class Gradients {
 public:
  Gradients(std::span<Shard> shards, const Mesh& mesh, at::Device device)
      : shards_(shards), mesh_(mesh), device_(device) {}

  std::span<Shard> shards() const { return shards_; }
  /// Those that there are.
  Tensors tensors() const;
  /// The L2 norm of the whole model's gradient: each logical element once, whether ranks split it, hold
  /// copies of it, or one parameter is used twice. 0 dimensions, fp64, on the device; no host waits for it.
  Tensor norm() const;
  /// Frees the final gradient of a shard that needs it no longer; norm() still counts it. What lies in a
  /// buffer that stays is left there: freeing it would give no memory back.
  static void release(Shard&);
  /// The largest over all ranks of a tensor of 0 dimensions, in place: an overflow seen anywhere.
  void agree(const Tensor& flag) const;

 private:
  std::span<Shard> shards_;
  const Mesh& mesh_;
  at::Device device_;
};
}  // namespace optrush
