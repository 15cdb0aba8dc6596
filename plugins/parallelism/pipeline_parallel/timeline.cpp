#include "timeline.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "optrush/error.h"

namespace optrush::pipeline_parallel {
namespace {
double cost_of(const Costs& costs, Work work) {
  switch (work) {
    case Work::forward:
      return costs.forward;
    case Work::backward:
      return costs.backward;
    case Work::weights:
      return costs.weights;
  }
  return 0;
}

/// The preceding work of a stage, and its stage; none for the first work of a micro-batch.
std::optional<std::pair<Work, int64_t>> needed(const Shape& shape, Work work, int64_t stage) {
  if (work == Work::weights) return std::pair(Work::backward, stage);
  if (work == Work::forward) {
    if (stage == 0) return std::nullopt;
    return std::pair(Work::forward, stage - 1);
  }
  if (stage + 1 == shape.stages()) return std::pair(Work::forward, stage);
  return std::pair(Work::backward, stage + 1);
}
}  // namespace

Costs usual_costs(const Shape& shape) {
  const double whole = 1.0 / static_cast<double>(shape.chunks);
  if (shape.schedule == Schedule::zero_bubble) return {whole, whole, whole};
  return {whole, 2 * whole, 0};
}

Timeline::Timeline(const Shape& shape) : Timeline(shape, usual_costs(shape)) {}

Timeline::Timeline(const Shape& shape, const Costs& costs) : shape_(shape) {
  for (int64_t rank = 0; rank < shape.ranks; ++rank) orders_.push_back(order_of(shape, rank));
  run(costs);
}

void Timeline::run(const Costs& costs) {
  std::map<std::tuple<Work, int64_t, int64_t>, double> done;
  std::vector<size_t> next(orders_.size(), 0);
  std::vector<double> free(orders_.size(), 0);
  // Ranks take turns until none can continue.
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t rank = 0; rank < orders_.size(); ++rank)
      for (; next[rank] < orders_[rank].size(); ++next[rank], moved = true) {
        const auto [work, chunk, micro] = orders_[rank][next[rank]];
        const int64_t here = static_cast<int64_t>(rank), stage = shape_.stage_of(here, chunk);
        double start = free[rank];
        if (const auto before = needed(shape_, work, stage)) {
          const auto found = done.find({before->first, before->second, micro});
          if (found == done.end()) break;
          start = std::max(start, found->second);
        }
        const double cost = cost_of(costs, work), end = start + cost;
        done[{work, stage, micro}] = free[rank] = end;
        busy_ += cost;
        length_ = std::max(length_, end);
        if (work == Work::forward && stage + 1 < shape_.stages())
          made_.push_back({end, {false, stage, micro}, here, (here + 1) % shape_.ranks});
        if (work == Work::backward && stage > 0)
          made_.push_back({end, {true, stage, micro}, here, (here + shape_.ranks - 1) % shape_.ranks});
      }
  }
  for (size_t rank = 0; rank < orders_.size(); ++rank)
    if (next[rank] < orders_[rank].size())
      throw Error("pipeline_parallel: rank " + std::to_string(rank) + " waits forever in its action " +
                      std::to_string(next[rank]),
                  "report this error with the schedule and the numbers of ranks, chunks and micro-batches");
  const auto key = [](const Made& each) {
    return std::tuple(each.time, each.message.micro, each.message.gradient, each.message.stage);
  };
  std::ranges::sort(made_, [&](const Made& a, const Made& b) { return key(a) < key(b); });
}

double Timeline::bubble() const { return 1 - busy_ / (length_ * static_cast<double>(shape_.ranks)); }

std::vector<Message> Timeline::between(int64_t rank, int64_t other) const {
  std::vector<Message> messages;
  for (const Made& each : made_)
    if (std::minmax(each.from, each.to) == std::minmax(rank, other)) messages.push_back(each.message);
  return messages;
}

int64_t Timeline::in_flight(int64_t rank) const {
  const bool splits = shape_.schedule == Schedule::zero_bubble;
  int64_t now = 0, most = 0;
  for (const Action& action : orders_.at(static_cast<size_t>(rank))) {
    if (action.work == Work::forward) most = std::max(most, ++now);
    if (action.work == (splits ? Work::weights : Work::backward)) --now;
  }
  return most;
}
}  // namespace optrush::pipeline_parallel
