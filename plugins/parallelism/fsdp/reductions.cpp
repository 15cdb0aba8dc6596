#include "reductions.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "../used_anywhere.h"
#include "host_piece.h"
#include "optrush/error.h"
#include "optrush/shard.h"

namespace optrush::fsdp {
Reductions::Reductions(const Policy& policy, Run& run, std::function<void(Shard&)> final)
    : policy_(policy),
      run_(run),
      mesh_(run.mesh()),
      local_sums_(policy.stage == 1 && run.spec().train.accumulation > 1),
      final_(std::move(final)) {}

Mesh::Names Reductions::replica_dims(const FlatGroup& group) const {
  Mesh::Names dims = group.plan().first().summed_over(mesh_);
  std::erase_if(dims,
                [&](const auto& dim) { return std::ranges::find(group.dims(), dim) != group.dims().end(); });
  return dims;
}

void Reductions::add_group(FlatGroup& group, std::vector<Shard*> shards) {
  const std::vector<char> none(group.plan().params.size(), 0);
  states_.push_back({.group = &group,
                     .replicas = replica_dims(group),
                     .shards = std::move(shards),
                     .buffer = {},
                     .taken = none,
                     .used = none,
                     .piece = {},
                     .told = none});
}

/// Autograd's type, unless a plugin requested another one, for example for sums over several micro-batches.
at::ScalarType Reductions::gradient_type(const FlatGroup& group) const {
  const Tensor& leaf = group.plan().first().leaf;
  const auto asked = leaf.grad_dtype();
  return asked && *asked != leaf.scalar_type() ? *asked : group.plan().own_type;
}

at::ScalarType Reductions::sent_type(const FlatGroup& group) const {
  if (policy_.reduce_type == "fp32") return at::kFloat;
  if (policy_.reduce_type == "bf16") return at::kBFloat16;
  return gradient_type(group);
}

at::ScalarType Reductions::wide_type(const FlatGroup& group) const {
  return at::promoteTypes(sent_type(group), gradient_type(group));
}

void Reductions::take(size_t number, size_t index, const Tensor& gradient) {
  const at::NoGradGuard no_grad;
  State& state = states_.at(number);
  const FlatPlan& plan = state.group->plan();
  if (state.started)
    throw Error("a gradient of '" + plan.params.at(index).param->name +
                    "' was computed after the gradients of its unit were reduced",
                "a unit whose parameter gradients come later than its input gradient cannot be sharded");
  if (!state.buffer.defined()) {
    const auto type = local_sums_ ? wide_type(*state.group) : sent_type(*state.group);
    state.buffer = at::empty({plan.size}, gradient.options().dtype(type));
  }
  const Placed& placed = plan.params.at(index);
  const Tensor here = state.buffer.narrow(0, placed.at, placed.numel()).view(placed.box.box_shape());
  state.used.at(index) = 1;
  if (std::exchange(state.taken.at(index), 1) != 0) {
    here.add_(gradient);
  } else {
    here.copy_(gradient);
  }
}

/// Sets padding, and parameters that got no gradient, to zero.
void Reductions::fill_gaps(State& state) const {
  const FlatPlan& plan = state.group->plan();
  int64_t filled = 0;
  for (size_t i = 0; i < plan.params.size(); ++i) {
    if (state.taken[i] == 0) continue;
    const Placed& placed = plan.params[i];
    if (filled < placed.at) state.buffer.narrow(0, filled, placed.at - filled).zero_();
    filled = placed.at + placed.numel();
  }
  if (filled < plan.size) state.buffer.narrow(0, filled, plan.size - filled).zero_();
}

void Reductions::start(size_t number, bool last) {
  const at::NoGradGuard no_grad;
  State& state = states_.at(number);
  const FlatPlan& plan = state.group->plan();
  const auto type = sent_type(*state.group);
  if (!state.buffer.defined())
    state.buffer = at::empty({plan.size}, plan.first().leaf.options().dtype(type).requires_grad(false));
  fill_gaps(state);
  std::ranges::fill(state.taken, 0);
  state.started = true;
  state.summed = state.summed || last;
  Sum sum{&state, {}, std::exchange(state.buffer, Tensor()).to(type), {}, last};
  sum.piece = at::empty({plan.piece}, sum.whole.options());
  while (sums_[scatter].size() >= static_cast<size_t>(policy_.limit)) arrive(scatter);
  sum.pending = state.group->ranks().reduce_scatter(sum.piece, sum.whole);
  sums_[scatter].push_back(std::move(sum));
}

/// Waits for the oldest sum of a hop, and starts its next hop. Ranks call this at the same points of a step,
/// not when a sum happens to be complete, because all ranks must start collectives in the same order.
void Reductions::arrive(size_t hop) {
  Sum sum = std::move(sums_.at(hop).front());
  sums_.at(hop).pop_front();
  sum.pending.wait();
  if (hop == scatter) free_memory(std::exchange(sum.whole, Tensor()));
  advance(std::move(sum), hop + 1);
}

void Reductions::advance(Sum sum, size_t hop) {
  if (hop == kHops) return add_to_piece(sum);
  const auto& dims = hop == replicas ? sum.state->replicas : sum.state->group->plan().first().partial_over;
  if (mesh_.size(dims) == 1) return advance(std::move(sum), hop + 1);
  while (sums_.at(hop).size() >= static_cast<size_t>(policy_.limit)) arrive(hop);
  sum.pending = mesh_.group(dims).all_reduce(sum.piece);
  sums_.at(hop).push_back(std::move(sum));
}

void Reductions::add_to_piece(const Sum& sum) {
  const at::NoGradGuard no_grad;
  State& state = *sum.state;
  if (state.group->segments().empty()) return;
  if (state.piece.defined()) {
    state.piece.add_(moved(sum.piece, sum.piece.options().device(state.piece.device())));
  } else {
    state.piece = moved(sum.piece, state.group->piece().options().dtype(wide_type(*state.group)));
  }
  if (!sum.last) return;
  state.piece = state.piece.to(gradient_type(*state.group));
  complete(state, state.used);  // it is unknown whether another rank used the other ones
}

void Reductions::complete(State& state, const std::vector<char>& used) {
  for (size_t i = 0; i < state.shards.size(); ++i) {
    if (state.shards[i] == nullptr || used.at(i) == 0 || std::exchange(state.told[i], 1) != 0) continue;
    Shard& shard = *state.shards[i];
    const Segment& segment = state.group->segment_of(*shard.segments.front().param);
    shard.grad = state.piece.narrow(0, segment.at, segment.layout.numel());
    final_(shard);
  }
  // Shards hold the remaining references, so that they can free it.
  if (std::ranges::all_of(used, [](char each) { return each != 0; })) state.piece.reset();
}

void Reductions::finish() {
  for (size_t number = states_.size(); number-- > 0;)
    if (!states_[number].summed) start(number, /*last=*/true);
  for (size_t hop = scatter; hop < kHops; ++hop)
    while (!sums_.at(hop).empty()) arrive(hop);
  agree_on_used();
}

void Reductions::agree_on_used() {
  std::vector<char> used;
  std::vector<const Param*> params;
  for (const State& state : states_) {
    used.insert(used.end(), state.used.begin(), state.used.end());
    for (const Placed& placed : state.group->plan().params) params.push_back(placed.param);
  }
  used = used_anywhere(run_, params, std::move(used));
  auto next = used.begin();
  for (State& state : states_) {
    const auto end = next + std::ssize(state.used);
    complete(state, {next, end});
    state.piece.reset();
    next = end;
  }
}

void Reductions::end_backward() {
  for (State& state : states_) state.started = false;
}

void Reductions::begin_step() {
  for (State& state : states_) {
    state.summed = false;
    std::ranges::fill(state.used, 0);
    std::ranges::fill(state.told, 0);
  }
}

size_t Reductions::in_flight() const { return sums_[scatter].size(); }
}  // namespace optrush::fsdp
