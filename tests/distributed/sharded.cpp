#include "sharded.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <ATen/native/Resize.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace optrush::testing {
namespace {
void resize(const Tensor& flat, int64_t elements) {
  at::native::resize_bytes_cpu(flat.storage().unsafeGetStorageImpl(),
                               static_cast<size_t>(elements) * flat.element_size());
}

/// Shares storage but not the version counter: writing through it is not seen by autograd's checks.
Tensor alias(const Tensor& flat, int64_t elements) {
  return at::empty({0}, flat.options()).set_(flat.storage(), 0, {elements}, {1});
}
}  // namespace

Sharded::Sharded(Run& run) : mesh_(run.mesh()), ranks_(run.mesh().size("dp")), rank_(run.mesh().rank("dp")) {
  for (const auto& unit : run.units()) {
    for (Param* param : unit->params()) {
      if (group_of_.contains(param)) continue;  // tied: it belongs to the first unit that uses it
      auto found = std::find_if(groups_.begin(), groups_.end(), [&](const auto& group) {
        return group->owner == unit.get() && group->decay == param->decay;
      });
      if (found == groups_.end()) {
        groups_.push_back(std::make_unique<Group>());
        found = groups_.end() - 1;
        (*found)->owner = unit.get();
        (*found)->decay = param->decay;
      }
      Group& group = **found;
      group.segments.push_back({param, 0, param->numel(), group.size});
      group.size += param->numel();
      group_of_[param] = &group;
    }
  }
  for (auto& group : groups_) {
    group->size = (group->size + ranks_ - 1) / ranks_ * ranks_;
    group->flat = at::empty({group->size}, group->segments.front().param->dtype);
    resize(group->flat, 0);
    group->shard = shards_.size();
    shards_.push_back({.data = at::zeros({group->size / ranks_}, group->flat.options()),
                       .grad = {},
                       .decay = group->decay,
                       .segments = {},
                       .split_over = {"dp"}});
  }
}

void Sharded::store(Param& param, Tensors value) {
  Group& group = *group_of_.at(&param);
  Shard& shard = shards_[group.shard];
  const auto segment = std::find_if(group.segments.begin(), group.segments.end(),
                                    [&](const Segment& s) { return s.param == &param; });
  const int64_t piece = group.size / ranks_, first = rank_ * piece;
  const int64_t begin = std::max(first, segment->at),
                end = std::min(first + piece, segment->at + segment->end);
  if (begin < end) {
    shard.data.slice(0, begin - first, end - first)
        .copy_(value.at(0).flatten().slice(0, begin - segment->at, end - segment->at));
    shard.segments.push_back({&param, begin - segment->at, end - segment->at, begin - first});
  }
  resize(group.flat, group.size);
  param.leaf = group.flat.slice(0, segment->at, segment->at + segment->end)
                   .view(param.shape)
                   .detach()
                   .requires_grad_(param.trainable);
  resize(group.flat, 0);
}

std::vector<Sharded::Group*> Sharded::groups_of(const Unit& unit) {
  std::vector<Group*> groups;
  for (const Param* param : unit.params()) {
    Group* group = group_of_.at(param);
    if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
  }
  return groups;
}

void Sharded::gather(const std::vector<Group*>& groups) {
  const at::NoGradGuard no_grad;
  for (Group* group : groups) {
    if (group->flat.storage().nbytes() != 0) continue;
    resize(group->flat, group->size);
    Tensor whole = alias(group->flat, group->size), piece = shards_[group->shard].data;
    mesh_.group({"dp"})._allgather_base(whole, piece)->wait();
  }
}

void Sharded::release(const std::vector<Group*>& groups) {
  for (Group* group : groups) resize(group->flat, 0);
}

void Sharded::reduce(Group& group) {
  const at::NoGradGuard no_grad;
  Shard& shard = shards_[group.shard];
  if (shard.grad.defined()) return;
  Tensor whole = at::zeros({group.size}, group.flat.options());
  for (const Segment& segment : group.segments) {
    Tensor& gradient = segment.param->leaf.mutable_grad();
    if (gradient.defined()) whole.slice(0, segment.at, segment.at + segment.end).copy_(gradient.flatten());
    gradient.reset();
  }
  shard.grad = at::empty_like(shard.data);
  mesh_.group({"dp"})._reduce_scatter_base(shard.grad, whole)->wait();
}

UnitFunction Sharded::wrap(UnitFunction inner, const Unit& unit) {
  return [this, inner = std::move(inner), &unit](const Tensor& x, const Batch& batch) {
    const auto groups = groups_of(unit);
    gather(groups);
    const Tensor out = inner(x, batch);
    release(groups);
    if (!out.requires_grad()) return out;
    out.register_hook([this, groups](const Tensor&) { gather(groups); });
    if (x.defined() && x.requires_grad())
      x.register_hook([this, groups, &unit](const Tensor&) {
        for (Group* group : groups)
          if (group->owner == &unit) reduce(*group);
        release(groups);
      });
    return out;
  };
}

void Sharded::finish() {
  for (auto& group : groups_) {
    reduce(*group);
    resize(group->flat, 0);
  }
}

void Sharded::zero_gradients() {
  for (Shard& shard : shards_) shard.grad.reset();
}

int64_t Sharded::gathered_bytes() const {
  int64_t bytes = 0;
  for (const auto& group : groups_) bytes += static_cast<int64_t>(group->flat.storage().nbytes());
  return bytes;
}

void shard_fully(Recipe& recipe, Sharded*& made) {
  recipe.data_parallel.replace([&made](Run& run) {
    auto sharded = std::make_unique<Sharded>(run);
    made = sharded.get();
    return sharded;
  });
  recipe.unit.wrap(Phase::shard, [&made](UnitFunction inner, const Unit& unit) {
    const bool top = unit.role == "embed" || unit.role == "block" || unit.role == "head";
    return top ? made->wrap(std::move(inner), unit) : inner;
  });
}
}  // namespace optrush::testing
