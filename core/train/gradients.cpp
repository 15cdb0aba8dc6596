#include "optrush/gradients.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>

namespace optrush {
namespace {
/// Ranks that hold the same elements, each of which adds its share.
double copies(const Shard& shard, const Mesh& mesh) {
  int64_t ranks = 1;
  for (const auto& dim : mesh.dims())
    if (std::ranges::find(shard.split_over, dim.name) == shard.split_over.end()) ranks *= dim.size;
  return static_cast<double>(ranks);
}

/// What this rank counts of a shard's gradient: all of it, but for parameters that another rank counts.
Tensors counted_gradients(const Shard& shard) {
  if (!shard.grad.defined()) return {};
  const auto counts = [](const Segment& segment) { return segment.param->counted; };
  if (std::ranges::all_of(shard.segments, counts)) return {shard.grad};
  Tensors parts;
  for (const Segment& segment : shard.segments)
    if (counts(segment)) parts.push_back(Shard::part(shard.grad, segment));
  return parts;
}
}  // namespace

Tensors Gradients::tensors() const {
  Tensors all;
  for (const Shard& shard : shards_)
    if (shard.grad.defined()) all.push_back(shard.grad);
  return all;
}

Tensor Gradients::norm() const {
  const at::NoGradGuard no_grad;
  // A multi-tensor kernel takes one type at a time.
  std::map<std::pair<double, at::ScalarType>, Tensors> alike;
  for (const Shard& shard : shards_)
    for (Tensor& gradient : counted_gradients(shard))
      alike[{copies(shard, mesh_), gradient.scalar_type()}].push_back(std::move(gradient));
  Tensor squares = at::zeros({}, at::TensorOptions(at::kDouble).device(device_));
  for (const auto& [key, gradients] : alike) {
    const auto& [ranks, type] = key;
    const auto wide = at::elementSize(type) < 4 ? std::optional(at::kFloat) : std::nullopt;
    const Tensor norms = at::stack(at::_foreach_norm(gradients, 2, wide)).to(at::kDouble);
    squares.add_(norms.square().sum(), 1 / ranks);
  }
  mesh_.group(mesh_.all()).all_reduce(squares).wait();
  return squares.sqrt_();
}

void Gradients::agree(const Tensor& flag) const { mesh_.group(mesh_.all()).all_reduce_max(flag).wait(); }
}  // namespace optrush
