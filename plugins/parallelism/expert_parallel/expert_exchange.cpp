#include "expert_exchange.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "optrush/forecast.h"

namespace optrush::expert_parallel {
namespace {
using Counts = std::vector<int64_t>;

Counts numbers(const Tensor& on_host) {
  return {on_host.const_data_ptr<int64_t>(), on_host.const_data_ptr<int64_t>() + on_host.numel()};
}

/// The numbers of rows that go to each rank and come from each rank, as an input of an operator.
Tensor as_tensor(const Counts& to, const Counts& from) {
  return at::stack({at::tensor(to, at::kLong), at::tensor(from, at::kLong)});
}

/// Starts sending rows, and returns the tensor that will hold the arriving rows.
Tensor started(Group& ranks, const Tensor& rows, const Counts& to, const Counts& from,
               std::vector<UnderWay>& under_way) {
  const Tensor in = rows.contiguous();
  Tensor out = at::empty({std::accumulate(from.begin(), from.end(), int64_t{0}), rows.size(1)}, in.options());
  under_way.push_back({ranks.all_to_all(out, from, in, to), out});
  return out;
}

/// The rows of the exchange that was started last. Waits for them.
Tensor arrived(std::vector<UnderWay>& under_way) {
  UnderWay last = std::move(under_way.back());
  under_way.pop_back();
  last.work.wait();
  return last.arriving;
}

Differentiable half_of_exchange(std::string name,
                                std::function<Tensor(const Tensor& rows, const Tensor& sizes)> forward,
                                std::function<Tensor(const Tensor& rows, const Tensor& sizes)> backward) {
  return {{.name = std::move(name),
           .forward = [forward = std::move(forward)](const Tensors& in) -> Differentiable::Result {
             return {{forward(in[0], in[1])}, {in[1]}};
           },
           .backward = [backward = std::move(backward)](const Tensors& saved,
                                                        const Tensors& gradients) -> Tensors {
             return {backward(gradients[0], saved[0]), {}};
           },
           .traits = {.trace = Trace::opaque, .offers = {feature::fp64}, .predictable = true},
           .cast = Cast::lower}};
}

/// Numbers of rows. `counts`: for each sending rank and each expert (R, L), rank by rank.
struct Arriving {
  Counts leaving;  ///< (E): rows that this rank sends to each expert
  Counts counts;
  size_t experts;  ///< L

  /// (L): sums over all ranks.
  Counts by_expert() const {
    Counts sums(experts, 0);
    for (size_t i = 0; i < counts.size(); ++i) sums[i % experts] += counts[i];
    return sums;
  }
  Counts by_rank(const Counts& of_experts) const {
    Counts sums(of_experts.size() / experts, 0);
    for (size_t i = 0; i < of_experts.size(); ++i) sums[i / experts] += of_experts[i];
    return sums;
  }
};

/// The blocks (outer, inner) of rows in the order (inner, outer): from ranks first to experts first, or back.
Tensor transposed(const Tensor& rows, const Counts& sizes, size_t inner) {
  const Tensors blocks = rows.split_with_sizes(sizes);
  Tensors sorted;
  for (size_t i = 0; i < inner; ++i)
    for (size_t block = i; block < blocks.size(); block += inner) sorted.push_back(blocks[block]);
  return at::cat(sorted);
}

Counts transposed(const Counts& sizes, size_t inner) {
  Counts sorted;
  for (size_t i = 0; i < inner; ++i)
    for (size_t block = i; block < sizes.size(); block += inner) sorted.push_back(sizes[block]);
  return sorted;
}

/// For a forecast, which has no values: all experts of all ranks get equally many rows.
Arriving planned(int64_t rows, const Group& ranks, size_t experts) {
  const auto all = experts * static_cast<size_t>(ranks.size());
  Counts equal(all, rows / static_cast<int64_t>(all));
  for (size_t i = 0; i < static_cast<size_t>(rows % static_cast<int64_t>(all)); ++i) ++equal[i];
  Arriving arriving{equal, {}, experts};
  const auto own = equal.begin() + static_cast<std::ptrdiff_t>(experts) * ranks.rank();
  for (int64_t rank = 0; rank < ranks.size(); ++rank)
    arriving.counts.insert(arriving.counts.end(), own, own + static_cast<std::ptrdiff_t>(experts));
  return arriving;
}
}  // namespace

ExpertExchange::ExpertExchange(Group& ranks)
    : ranks_(ranks),
      start_(half_of_exchange(
          "send_to_experts",
          [this](const Tensor& rows, const Tensor& sizes) {
            return started(ranks_, rows, numbers(sizes[0]), numbers(sizes[1]), under_way_);
          },
          [this](const Tensor&, const Tensor&) { return arrived(under_way_); })),
      finish_(half_of_exchange(
          "arrive_at_experts",
          [this](const Tensor& coming, const Tensor&) {
            arrived(under_way_);
            return coming.view_as(coming);
          },
          [this](const Tensor& gradient, const Tensor& sizes) {
            started(ranks_, gradient, numbers(sizes[1]), numbers(sizes[0]), under_way_);
            // Its values are not read: the backward of start_ returns the gradient that arrives.
            return gradient;
          })) {}

Tensor ExpertExchange::exchanged(const Tensor& rows, const Tensor& sizes,
                                 const std::function<void()>& meanwhile) const {
  const Tensor coming = call(start_, {rows, sizes}).at(0);
  meanwhile();
  return call(finish_, {coming, sizes}).at(0);
}

Tensor ExpertExchange::operator()(const Ops::Experts::Fn& experts, const Tensor& rows, const Tensor& counts,
                                  const Batch& batch, const std::function<void()>& meanwhile) const {
  const auto ranks = static_cast<size_t>(ranks_.size());
  const size_t own = static_cast<size_t>(counts.numel()) / ranks;
  const Tensor coming = at::empty_like(counts);
  ranks_.all_to_all(coming, counts).wait();
  const Arriving arriving = is_forecast(rows) ? planned(rows.size(0), ranks_, own)
                                              : Arriving{numbers(counts.cpu()), numbers(coming.cpu()), own};
  const Counts to = arriving.by_rank(arriving.leaving), from = arriving.by_rank(arriving.counts);
  const Tensor here = transposed(exchanged(rows, as_tensor(to, from), meanwhile), arriving.counts, own);
  computed_rows_ += static_cast<double>(here.size(0));
  const Tensor of_experts = at::tensor(arriving.by_expert(), at::kLong).to(counts.device());
  const Tensor back = transposed(experts(here, of_experts, batch), transposed(arriving.counts, own), ranks);
  return exchanged(back, as_tensor(from, to), [] {});
}
}  // namespace optrush::expert_parallel
