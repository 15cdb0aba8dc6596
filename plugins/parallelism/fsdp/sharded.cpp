#include "sharded.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "optrush/evaluation.h"
#include "optrush/leaf.h"
#include "traffic.h"

namespace optrush::fsdp {
namespace {
std::vector<const Unit*> top_units(const Run& run) {
  std::vector<const Unit*> units;
  for (const auto& chunk : run.chunks()) units.insert(units.end(), chunk.begin(), chunk.end());
  return units;
}
}  // namespace

Sharded::Sharded(Run& run, Policy policy, Mesh::Names dims)
    : policy_(std::move(policy)),
      dims_(std::move(dims)),
      gathers_(policy_.limit),
      reductions_(policy_, run.mesh(), dims_, run.spec().train.accumulation,
                  [this](Shard& shard) { ready(shard); }) {
  Group& ranks = run.mesh().group(dims_);
  for (FlatPlan& plan : make_plans(top_units(run), policy_, ranks.size())) {
    const size_t number = groups_.size();
    for (const Placed& placed : plan.params) group_of_[placed.param] = number;
    groups_.emplace_back(std::move(plan), ranks, dims_, run.device(), policy_.offload);
  }
  shard_of_.assign(groups_.size(), -1);
  for (size_t i = 0; i < groups_.size(); ++i) {
    const FlatGroup& group = groups_[i];
    if (!group.plan().trainable()) continue;
    trainable_.push_back(i);
    if (group.segments().empty()) continue;
    shard_of_[i] = static_cast<int64_t>(shards_.size());
    shards_.push_back({.data = {},
                       .grad = {},
                       .decay = group.plan().first().decay,
                       .segments = group.segments(),
                       .split_over = group.split_over()});
  }
  for (const size_t i : trainable_)
    reductions_.add_group(groups_[i],
                          shard_of_[i] < 0 ? nullptr : &shards_[static_cast<size_t>(shard_of_[i])]);
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
  if (const int64_t shard = shard_of_[found->second]; shard >= 0)
    shards_[static_cast<size_t>(shard)].data = group.piece();
}

/// A leaf's gradient goes into the flat buffer as soon as autograd has it, and is freed.
void Sharded::listen() {
  if (std::exchange(listening_, true)) return;
  for (size_t number = 0; number < trainable_.size(); ++number) {
    const auto& params = groups_[trainable_[number]].plan().params;
    for (size_t i = 0; i < params.size(); ++i)
      after_accumulation(params[i].param->leaf, [this, number, i](const Tensor& leaf) {
        // A compiler that tries out what it made has gradients of its own.
        if (!in_backward_) return;
        reductions_.take(number, i, leaf.grad());
        leaf.mutable_grad().reset();
      });
  }
}

UnitFunction Sharded::wrap(UnitFunction inner, const Unit& unit) {
  const auto found = place_of_.find(&unit);
  if (found == place_of_.end()) return inner;
  return [this, place = found->second, inner = std::move(inner)](const Tensor& x, const Batch& batch) {
    enter_forward(*place);
    Tensor out = inner(x, batch);
    leave_forward(*place, out);
    return out;
  };
}

void Sharded::enter_forward(Place& place) {
  for (FlatGroup* group : place.groups) gathers_.need(*group);
  gather_ahead(&place, &Place::after, /*backward=*/false);
}

void Sharded::leave_forward(Place& place, const Tensor& out) {
  // A leaf's gradient may be there before those of the parameters that were used with it.
  place.has_backward = at::GradMode::is_enabled() && out.requires_grad() && !out.is_leaf();
  if (policy_.gathers_each_unit() && (policy_.reshard_after_forward || !place.has_backward))
    for (FlatGroup* group : place.groups) gathers_.drop(*group);
  // Between steps nothing stays whole: at stages 1 and 2 only a step's end would free it.
  if (evaluating() && place.after == nullptr)
    for (FlatGroup& group : groups_) gathers_.drop(group);
  if (place.has_backward) out.register_hook([this, &place](const Tensor&) { enter_backward(place); });
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

/// Frees what units read whose backward is over, but for what `next` reads, or a later one still has of the
/// forward.
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

/// At stage 1 the gradients of all micro-batches add up first.
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
