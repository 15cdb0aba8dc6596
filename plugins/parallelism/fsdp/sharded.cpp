#include "sharded.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>

#include "optrush/advanced/data_parallel.h"
#include "optrush/scopes.h"
#include "traffic.h"

namespace optrush::fsdp {
namespace {
std::vector<const Unit*> top_units(const Run& run) {
  std::vector<const Unit*> units;
  for (const auto& chunk : run.chunks()) units.insert(units.end(), chunk.begin(), chunk.end());
  return units;
}
}  // namespace

Sharded::Sharded(Run& run, Policy policy, const Mesh::Names& dims)
    : policy_(std::move(policy)),
      gathers_(policy_.limit),
      reductions_(policy_, run, [this](Shard& shard) { ready(shard); }) {
  for (FlatPlan& plan : make_plans(top_units(run), policy_, run.mesh(), dims)) {
    Group& ranks = run.mesh().group(plan.dims);
    const size_t number = groups_.size();
    for (const Placed& placed : plan.params) group_of_[placed.param] = number;
    groups_.emplace_back(std::move(plan), ranks, run.device(), policy_.offload);
  }
  for (size_t i = 0; i < groups_.size(); ++i) {
    const FlatGroup& group = groups_[i];
    if (!group.plan().trainable()) continue;
    trainable_.push_back(i);
    for (const Segment& segment : group.segments()) {
      shard_of_[segment.param] = shards_.size();
      shards_.push_back({.data = {},
                         .grad = {},
                         .decay = segment.param->decay,
                         .segments = {{segment.param, segment.layout, 0}},
                         .sharded_over = group.sharded_over()});
    }
  }
  for (const size_t i : trainable_) {
    std::vector<Shard*> shards;
    for (const Placed& placed : groups_[i].plan().params) {
      const auto found = shard_of_.find(placed.param);
      shards.push_back(found == shard_of_.end() ? nullptr : &shards_[found->second]);
    }
    reductions_.add_group(groups_[i], std::move(shards));
  }
  make_places(run);
}

void Sharded::make_places(const Run& run) {
  size_t owner = 0;
  for (const auto& chunk : run.chunks()) {
    Place* before = nullptr;
    for (const Unit* unit : chunk) {
      Place& place = places_.emplace_back();
      place_of_[unit] = &place;
      place.before = before;
      if (before != nullptr) before->after = &place;
      before = &place;
      for (const Param* param : unit->params()) {
        const auto found = group_of_.find(param);
        if (found == group_of_.end()) continue;
        FlatGroup* group = &groups_[found->second];
        if (std::ranges::find(place.groups, group) == place.groups.end()) place.groups.push_back(group);
      }
      for (size_t number = 0; number < trainable_.size(); ++number)
        if (groups_[trainable_[number]].plan().owner == owner) place.owned.push_back(number);
      ++owner;
    }
  }
}

void Sharded::store(Param& param, Tensors values) {
  const auto found = group_of_.find(&param);
  if (found == group_of_.end()) {  // frozen, and whole on every rank
    keep_whole(param, std::move(values), shards_);
    return;
  }
  FlatGroup& group = groups_[found->second];
  group.store(param, values);
  const auto shard = shard_of_.find(&param);
  if (shard == shard_of_.end() || shards_[shard->second].data.defined()) return;
  const Segment& segment = group.segment_of(param);
  shards_[shard->second].data = group.piece().narrow(0, segment.at, segment.layout.numel());
}

/// A leaf's gradient goes into the flat buffer as soon as autograd has it, and is freed.
void Sharded::listen() {
  if (std::exchange(listening_, true)) return;
  for (size_t number = 0; number < trainable_.size(); ++number) {
    const auto& params = groups_[trainable_[number]].plan().params;
    for (size_t i = 0; i < params.size(); ++i)
      after_accumulation(params[i].param->leaf, [this, number, i](const Tensor& leaf) {
        // A compiler that tests its code has separate gradients.
        if (!in_backward_) return;
        reductions_.take(number, i, leaf.grad());
        leaf.mutable_grad().reset();
      });
  }
}

Sharded::Origin Sharded::Origin::of(const Tensor& tensor) {
  const auto& node = tensor.grad_fn();
  return {node.get(), node->sequence_nr(), tensor.output_nr()};
}

UnitFunction Sharded::wrap(UnitFunction inner, const Unit& unit) {
  const auto found = place_of_.find(&unit);
  if (found == place_of_.end()) return inner;
  return [this, place = found->second, inner = std::move(inner)](const Tensor& x, const Batch& batch) {
    enter_forward(*place);
    return leave_forward(*place, inner(x, batch));
  };
}

void Sharded::enter_forward(Place& place) {
  for (FlatGroup* group : place.groups) gathers_.need(*group);
  gather_ahead(&place, &Place::after, /*backward=*/false);
}

Tensor Sharded::leave_forward(Place& place, Tensor out) {
  // Hooks of one tensor run in the order of registration, so the backward of an earlier unit would begin
  // first. A separate tensor has its hook called first.
  if (out.requires_grad() && !out.is_leaf()) {
    const Origin returned = Origin::of(out);
    for (const Place* before = place.before; before != nullptr; before = before->before)
      if (before->out == returned) {
        out = at::alias(out);
        break;
      }
    place.out = Origin::of(out);
  } else {
    place.out = {};
  }
  // If the output is a leaf, its gradient may be ready before the gradients of parameters that were used with
  // it.
  place.has_backward = at::GradMode::is_enabled() && out.requires_grad() && !out.is_leaf();
  if (policy_.gathers_each_unit() && (policy_.reshard_after_forward || !place.has_backward))
    for (FlatGroup* group : place.groups) gathers_.drop(*group);
  // No parameter stays whole between steps: at stages 1 and 2 only the end of a step would free it.
  if (evaluating() && place.after == nullptr)
    for (FlatGroup& group : groups_) gathers_.drop(group);
  if (place.has_backward) out.register_hook([this, &place](const Tensor&) { enter_backward(place); });
  return out;
}

void Sharded::before_backward(const Tensor& /*out*/, bool last) {
  leave_backward();
  listen();
  last_ = last;
  in_backward_ = true;
}

void Sharded::enter_backward(Place& place) {
  const std::vector<Place*> over = std::exchange(entered_, {&place});
  drop(over, &place);
  for (FlatGroup* group : place.groups) gathers_.need(*group);
  gather_ahead(&place, &Place::before, /*backward=*/true);
  sum_gradients(over);
}

void Sharded::leave_backward() {
  const std::vector<Place*> over = std::exchange(entered_, {});
  drop(over, nullptr);
  sum_gradients(over);
  reductions_.end_backward();
  in_backward_ = false;
}

/// Frees the groups of units whose backward is over. Keeps groups that `next` reads, and groups that a later
/// unit of the backward still has from the forward.
void Sharded::drop(const std::vector<Place*>& over, const Place* next) {
  if (!policy_.gathers_each_unit()) return;
  const auto reads = [](const Place& place, const FlatGroup* group) {
    return std::ranges::find(place.groups, group) != place.groups.end();
  };
  for (const Place* each : over)
    for (FlatGroup* group : each->groups) {
      bool wanted = false;
      for (const Place* place = next; place != nullptr && !wanted; place = place->before) {
        wanted = place->has_backward && reads(*place, group);
        if (policy_.reshard_after_forward) break;
      }
      if (!wanted) gathers_.drop(*group);
    }
}

/// At stage 1 the gradients of all micro-batches are added up before they are sent.
void Sharded::sum_gradients(const std::vector<Place*>& over) {
  if (policy_.stage == 1 && !last_) return;
  for (const Place* each : over)
    for (const size_t number : each->owned) reductions_.start(number, last_);
}

void Sharded::gather_ahead(const Place* from, Place* Place::*next, bool backward) {
  for (int64_t units = 0; units < policy_.prefetch; ++units) {
    from = from->*next;
    if (from == nullptr || (backward && !from->has_backward)) return;
    for (FlatGroup* group : from->groups)
      if (!gathers_.ahead(*group)) return;
  }
}

void Sharded::finish() {
  leave_backward();
  reductions_.finish();
  for (FlatGroup& group : groups_) gathers_.drop(group);
}

void Sharded::zero_gradients() {
  for (Shard& shard : shards_) shard.grad.reset();
  reductions_.begin_step();
}

int64_t Sharded::gathered_groups() const {
  int64_t gathers = 0;
  for (const FlatGroup& group : groups_) gathers += group.gathers();
  return gathers;
}

double Sharded::gathered_bytes() const {
  double bytes = 0;
  for (const FlatGroup& group : groups_)
    bytes += static_cast<double>(group.gathers()) * group.gathered_bytes();
  return bytes;
}

void Sharded::expect_traffic(Run& run) const {
  std::vector<UnitUse> units;
  for (const Place& place : places_)
    units.push_back({place.before == nullptr, {place.groups.begin(), place.groups.end()}});
  for (const Sent& sent :
       traffic_of_step(units, groups_, policy_, reductions_, run.mesh(), run.spec().train.accumulation))
    run.expect_traffic(sent.collective, sent.dims, sent.bytes);
}
}  // namespace optrush::fsdp
