#pragma once
#include <span>
#include <string>
#include <vector>

#include "optrush/param.h"

namespace optrush {
class Mesh;

/// The elements of `layout` of a parameter, at offset `at` in a shard.
struct Segment {
  Param* param = nullptr;
  Layout layout;
  int64_t at = 0;
};

/// A unit of optimizer updates: a whole local parameter, or one rank's part of a flat parameter. `segments`
/// maps it to logical elements, so state can be saved and loaded with a different number of ranks.
struct Shard {
  Tensor data, grad;
  /// L2 norms of the gradient's parts, if it was freed early: see Gradients::release.
  Tensors released;
  bool grad_in_buffer = false;  ///< part of a buffer that is kept across steps
  bool decay = true;
  std::vector<Segment> segments;
  /// Mesh dimensions along which ranks have different elements. Along the others they have copies.
  std::vector<std::string> sharded_over;

  /// A key that is constant during a run, for optimizer state by shard.
  const void* key() const { return data.unsafeGetTensorImpl(); }

  /// A segment's elements of `data`, `grad` or another tensor of this shard, flat.
  static Tensor part(const Tensor& of_shard, const Segment& segment) {
    return of_shard.flatten().narrow(0, segment.at, segment.layout.numel());
  }
};

/// Groups tensors by device and type, for multi-tensor kernels. Shards may be in host memory and on a GPU.
std::vector<Tensors> alike(Tensors);

/// The final gradients of a step. All ranks must make the same calls, even without a gradient.
class Gradients {
 public:
  Gradients(std::span<Shard> shards, const Mesh& mesh, at::Device device)
      : shards_(shards), mesh_(mesh), device_(device) {}

  std::span<Shard> shards() const { return shards_; }
  /// The defined gradients.
  Tensors tensors() const;
  /// The L2 norm of the whole model's gradient. Each logical element counts once, whether it is sharded,
  /// replicated or shared by two uses. A 0-dim fp64 tensor on the device, without host synchronization.
  Tensor norm() const;
  /// Frees the final gradient of a shard; norm() still includes it. A gradient in a permanent buffer is kept,
  /// because freeing it would release no memory.
  static void release(Shard&);
  /// Maximum of a 0-dim tensor over all ranks, in place, for example of an overflow flag.
  void agree(const Tensor& flag) const;

 private:
  std::span<Shard> shards_;
  const Mesh& mesh_;
  at::Device device_;
};
}  // namespace optrush
