#include "expert_exchange.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "optrush/forecast.h"

namespace optrush::expert_parallel {
namespace {
using Counts = std::vector<int64_t>;

Counts numbers(const Tensor& on_host) {
  return {on_host.const_data_ptr<int64_t>(), on_host.const_data_ptr<int64_t>() + on_host.numel()};
}

/// Rows that go to each rank, and that come from each, as an input of an operator.
Tensor as_tensor(const Counts& to, const Counts& from) {
  return at::stack({at::tensor(to, at::kLong), at::tensor(from, at::kLong)});
}

Tensor exchanged(Group& ranks, const Tensor& rows, const Counts& to, const Counts& from) {
  const Tensor in = rows.contiguous();
  Tensor out = at::empty({std::accumulate(from.begin(), from.end(), int64_t{0}), rows.size(1)}, in.options());
  ranks.all_to_all(out, from, in, to).wait();
  return out;
}

/// Rows of each expert, for each rank that sends them: (R, L), rank by rank.
struct Arriving {
  Counts leaving;  ///< (E) of this rank's own rows
  Counts counts;
  size_t experts;  ///< L

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

/// A forecast has no values: all experts are equally busy, on every rank.
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
      send_{.name = "send_to_experts",
            .forward = [&ranks](const Tensors& in) -> Differentiable::Result {
              return {{exchanged(ranks, in[0], numbers(in[1][0]), numbers(in[1][1]))}, {in[1]}};
            },
            .backward = [&ranks](const Tensors& saved, const Tensors& gradients) -> Tensors {
              return {exchanged(ranks, gradients[0], numbers(saved[0][1]), numbers(saved[0][0])), {}};
            },
            .traits = {.trace = Trace::opaque, .offers = {"double"}, .predictable = true},
            .cast = Cast::lower} {}

Tensor ExpertExchange::operator()(const Ops::Experts::Fn& experts, const Tensor& rows, const Tensor& counts,
                                  const Batch& batch) const {
  const auto ranks = static_cast<size_t>(ranks_.size());
  const size_t own = static_cast<size_t>(counts.numel()) / ranks;
  const Tensor coming = at::empty_like(counts);
  ranks_.all_to_all(coming, counts).wait();
  const Arriving arriving = is_forecast(rows) ? planned(rows.size(0), ranks_, own)
                                              : Arriving{numbers(counts.cpu()), numbers(coming.cpu()), own};
  const Counts to = arriving.by_rank(arriving.leaving), from = arriving.by_rank(arriving.counts);
  const Tensor arrived = call(send_, {rows, as_tensor(to, from)}).at(0);
  computed_rows_ += static_cast<double>(arrived.size(0));
  const Tensor of_experts = coming.view({ranks_.size(), -1}).sum(0);
  const Tensor out = experts(transposed(arrived, arriving.counts, own), of_experts, batch);
  const Tensor back = transposed(out, transposed(arriving.counts, own), ranks);
  return call(send_, {back, as_tensor(from, to)}).at(0);
}
}  // namespace optrush::expert_parallel
