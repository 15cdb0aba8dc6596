#include "optrush/shard.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>

#include "base/contains.h"
#include "optrush/mesh.h"

namespace optrush {
namespace {
/// The number of ranks that hold the same elements and each add their share.
double copies(const Shard& shard, const Mesh& mesh) {
  int64_t ranks = 1;
  for (const auto& dim : mesh.dims())
    if (!contains(shard.sharded_over, dim.name)) ranks *= dim.size;
  return static_cast<double>(ranks);
}

/// The gradients of a shard that this rank counts: none if another rank counts the parameter.
Tensors counted_gradients(const Shard& shard) {
  if (!shard.grad.defined()) return {};
  const auto counts = [](const Segment& segment) { return segment.param->counted; };
  if (std::ranges::all_of(shard.segments, counts)) return {shard.grad};
  Tensors parts;
  for (const Segment& segment : shard.segments)
    if (counts(segment)) parts.push_back(Shard::part(shard.grad, segment));
  return parts;
}

using Kind = std::pair<c10::DeviceType, at::ScalarType>;
Kind kind_of(const Tensor& tensor) { return {tensor.device().type(), tensor.scalar_type()}; }

/// The L2 norm of each tensor, as 0-dimensional tensors in fp32 or wider.
Tensors norms_of(const Tensors& tensors) {
  std::map<Kind, std::vector<size_t>> kinds;
  for (size_t i = 0; i < tensors.size(); ++i) kinds[kind_of(tensors[i])].push_back(i);
  Tensors norms(tensors.size());
  for (const auto& [kind, places] : kinds) {
    const auto wide = at::elementSize(kind.second) < 4 ? std::optional(at::kFloat) : std::nullopt;
    Tensors same;
    for (const size_t i : places) same.push_back(tensors[i]);
    const auto found = at::_foreach_norm(same, 2, wide);
    for (size_t k = 0; k < places.size(); ++k) norms[places[k]] = found[k];
  }
  return norms;
}
}  // namespace

std::vector<Tensors> alike(Tensors tensors) {
  std::map<Kind, Tensors> kinds;
  for (Tensor& tensor : tensors) kinds[kind_of(tensor)].push_back(std::move(tensor));
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
  Tensors gradients;
  std::vector<ptrdiff_t> parts;  // number of parts of each shard
  for (const Shard& shard : shards_) {
    const Tensors counted = counted_gradients(shard);
    parts.push_back(std::ssize(counted));
    gradients.insert(gradients.end(), counted.begin(), counted.end());
  }
  const Tensors norms = norms_of(gradients);
  // In the order of the shards, released or not, so that the sum always has the same bits.
  std::map<double, Tensors> by_copies;
  auto next = norms.begin();
  for (size_t i = 0; i < shards_.size(); ++i) {
    const Shard& shard = shards_[i];
    Tensors& same = by_copies[copies(shard, mesh_)];
    same.insert(same.end(), shard.released.begin(), shard.released.end());
    same.insert(same.end(), next, next + parts[i]);
    next += parts[i];
  }
  Tensor squares = at::zeros({}, at::TensorOptions(at::kDouble).device(device_));
  for (auto& [ranks, of_copies] : by_copies)
    for (const Tensors& same : alike(std::move(of_copies)))
      squares.add_(at::stack(same).to(at::kDouble).square().sum().to(device_), 1 / ranks);
  mesh_.group(mesh_.all()).all_reduce(squares).wait();
  return squares.sqrt_();
}

void Gradients::release(Shard& shard) {
  if (shard.grad_in_buffer) return;
  const at::NoGradGuard no_grad;
  shard.released = norms_of(counted_gradients(shard));
  shard.grad.reset();
  for (const Segment& segment : shard.segments)
    if (segment.param->leaf.defined()) segment.param->leaf.mutable_grad().reset();
}

void Gradients::agree(const Tensor& flag) const { mesh_.group(mesh_.all()).all_reduce_max(flag).wait(); }
}  // namespace optrush
