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

std::vector<Tensors> alike(Tensors tensors) {
  std::map<std::pair<c10::DeviceType, at::ScalarType>, Tensors> kinds;
  for (Tensor& tensor : tensors)
    kinds[{tensor.device().type(), tensor.scalar_type()}].push_back(std::move(tensor));
  std::vector<Tensors> all;
  for (auto& [kind, same] : kinds) all.push_back(std::move(same));
  return all;
}

Tensors Gradients::tensors() const {
  Tensors all;
  for (const Shard& shard : shards_)
    if (shard.grad.defined()) all.push_back(shard.grad);
  return all;
}

Tensor Gradients::norm() const {
  const at::NoGradGuard no_grad;
  std::map<double, Tensors> by_copies;
  for (const Shard& shard : shards_)
    std::ranges::move(counted_gradients(shard), std::back_inserter(by_copies[copies(shard, mesh_)]));
  Tensor squares = at::zeros({}, at::TensorOptions(at::kDouble).device(device_));
  for (auto& [ranks, gradients] : by_copies) {
    for (const Tensors& same : alike(std::move(gradients))) {
      const auto type = same.front().scalar_type();
      const auto wide = at::elementSize(type) < 4 ? std::optional(at::kFloat) : std::nullopt;
      const Tensor norms = at::stack(at::_foreach_norm(same, 2, wide)).to(at::kDouble);
      squares.add_(norms.square().sum().to(device_), 1 / ranks);
    }
  }
  mesh_.group(mesh_.all()).all_reduce(squares).wait();
  return squares.sqrt_();
}

void Gradients::agree(const Tensor& flag) const { mesh_.group(mesh_.all()).all_reduce_max(flag).wait(); }
}  // namespace optrush
