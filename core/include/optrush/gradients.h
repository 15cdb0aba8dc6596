#pragma once
#include <span>
#include <vector>

#include "optrush/mesh.h"
#include "optrush/shard.h"

namespace optrush {
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
