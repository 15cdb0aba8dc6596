#include "mail.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "optrush/error.h"
#include "optrush/forecast.h"

namespace optrush::pipeline_parallel {
namespace {
constexpr int64_t kMostAxes = 6;
}

Mail::Mail(Group& ranks, const Timeline& timeline, at::Device device) : ranks_(ranks), device_(device) {
  for (int64_t rank = 0; rank < ranks.size(); ++rank) {
    if (rank == ranks.rank()) continue;
    auto order = timeline.between(ranks.rank(), rank);
    if (!order.empty()) links_[rank].order = std::move(order);
  }
}

bool Mail::is_mine(const Message& message) const { return message.stage % ranks_.size() == ranks_.rank(); }

size_t Mail::number_of(const Link& link, const Message& message) {
  return static_cast<size_t>(std::ranges::find(link.order, message) - link.order.begin());
}

void Mail::send(const Message& message, const Tensor& tensor, int64_t to) {
  Link& link = links_.at(to);
  if (!form_) form_ = Form{tensor.sizes().vec(), tensor.scalar_type()};
  if (tensor.sizes() != c10::IntArrayRef(form_->sizes) || tensor.scalar_type() != form_->type)
    throw Error("pipeline_parallel: stage " + std::to_string(message.stage) +
                    " sends a different size or type than the previous stages",
                "a plugin that changes the output of blocks must do so in all blocks");
  const size_t number = number_of(link, message);
  ask(to, link, number);
  if (!message.gradient) tell_form(to, link);
  leaving_.push_back({to, number, ranks_.send(tensor.contiguous(), to)});
  ++link.next;
  ask_ahead();
}

Tensor Mail::receive(const Message& message, int64_t from) {
  Link& link = links_.at(from);
  const size_t number = number_of(link, message);
  ask(from, link, number + 1);
  auto arrived = arriving_.extract({from, number});
  wait(arrived.mapped().pending);
  end_sends(from, number);
  ask_ahead();
  return arrived.mapped().tensor;
}

void Mail::ask(int64_t rank, Link& link, size_t end) {
  for (; link.next < end; ++link.next) {
    const Message& message = link.order.at(link.next);
    if (is_mine(message))
      throw Error("pipeline_parallel: a message was requested before an earlier one was sent");
    if (!message.gradient) learn_form(rank, link);
    Arriving& here = arriving_[{rank, link.next}];
    here.tensor = at::empty(form_->sizes, at::TensorOptions(form_->type).device(device_));
    here.pending = ranks_.receive(here.tensor, rank);
  }
}

/// Posts the next receive of each link that has no unused message, if the form is known.
void Mail::ask_ahead() {
  for (auto& [rank, link] : links_) {
    const bool waits = std::ranges::any_of(
        arriving_, [&, &rank = rank](const auto& each) { return each.first.first == rank; });
    if (waits || link.next == link.order.size() || is_mine(link.order[link.next])) continue;
    if (link.greeted || link.order[link.next].gradient) ask(rank, link, link.next + 1);
  }
}

/// Sends the form before the first activation to a rank. A forecast has values on the host only.
void Mail::tell_form(int64_t to, Link& link) {
  if (std::exchange(link.told, true)) return;
  std::vector<int64_t> numbers = {static_cast<int64_t>(form_->type), std::ssize(form_->sizes)};
  numbers.insert(numbers.end(), form_->sizes.begin(), form_->sizes.end());
  numbers.resize(2 + kMostAxes, 0);
  const at::Device device = is_forecast(device_) ? at::kCPU : device_;
  leaving_.push_back({to, 0, ranks_.send(at::tensor(numbers, at::kLong).to(device), to)});
}

void Mail::learn_form(int64_t from, Link& link) {
  if (std::exchange(link.greeted, true)) return;
  const at::Device device = is_forecast(device_) ? at::kCPU : device_;
  Tensor numbers = at::zeros({2 + kMostAxes}, at::TensorOptions(at::kLong).device(device));
  WorkHandle arrives = ranks_.receive(numbers, from);
  wait(arrives);
  numbers = numbers.cpu();
  const auto* values = numbers.const_data_ptr<int64_t>();
  if (values[1] > 0) {
    form_ = Form{{values + 2, values + 2 + values[1]}, static_cast<at::ScalarType>(values[0])};
  } else if (!form_) {  // a forecast of this rank alone
    throw Error("the input of a later stage is unknown without running the earlier ones");
  }
}

void Mail::wait(WorkHandle& pending) {
  const auto start = std::chrono::steady_clock::now();
  pending.wait();
  waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void Mail::end_sends(int64_t to, size_t before) {
  std::erase_if(leaving_, [&](Leaving& each) {
    const bool gone = each.to == to && each.number < before;
    if (gone) wait(each.pending);
    return gone;
  });
}

void Mail::end_step() {
  for (Leaving& each : leaving_) wait(each.pending);
  leaving_.clear();
  for (auto& [rank, link] : links_) link.next = 0;
}
}  // namespace optrush::pipeline_parallel
