#include "region.h"

#include <ATen/Functions.h>

#include <functional>
#include <utility>

namespace optrush::tensor_parallel {
namespace {
using Exchange = std::function<Tensor(const Tensor&)>;

/// (B, S / ranks, D) of each rank to (B, S, D).
Tensor gathered(Group& group, const Tensor& part) {
  const int64_t ranks = group.size(), batch = part.size(0), length = part.size(1), width = part.size(2);
  const Tensor all = at::empty({ranks, batch, length, width}, part.options());
  group.all_gather(all.view(-1), part.contiguous().view(-1)).wait();
  return all.transpose(0, 1).reshape({batch, ranks * length, width});
}

/// This rank's (B, S / ranks, D) of the sum of (B, S, D) over the ranks.
Tensor scattered(Group& group, const Tensor& whole) {
  const int64_t ranks = group.size(), batch = whole.size(0), length = whole.size(1) / ranks;
  const Tensor parts = whole.view({batch, ranks, length, whole.size(2)}).transpose(0, 1).contiguous();
  Tensor sum = at::empty({batch, length, whole.size(2)}, whole.options());
  group.reduce_scatter(sum.view(-1), parts.view(-1)).wait();
  return sum;
}

Differentiable linear_function(std::string name, Exchange forward, Exchange backward, Trace trace) {
  return {{.name = std::move(name),
           .forward = [forward = std::move(forward)](const Tensors& in) -> Differentiable::Result {
             return {{forward(in[0])}, {}};
           },
           .backward = [backward = std::move(backward)](const Tensors&, const Tensors& gradients) -> Tensors {
             return {backward(gradients[0])};
           },
           .traits = {.trace = trace, .offers = {feature::fp64}, .predictable = true}}};
}
}  // namespace

Region::Region(Group& ranks, bool by_sequence) {
  const Exchange same = [](const Tensor& x) { return x.view_as(x); };
  const Exchange sum = [&ranks](const Tensor& x) { return ranks.all_reduced(x); };
  const Exchange gather = [&ranks](const Tensor& x) { return gathered(ranks, x); };
  const Exchange scatter = [&ranks](const Tensor& x) { return scattered(ranks, x.contiguous()); };
  const Trace trace = by_sequence ? Trace::opaque : Trace::pair;
  enter_ = linear_function("enter_tensor_parallel", by_sequence ? gather : same, by_sequence ? scatter : sum,
                           trace);
  leave_ = linear_function("leave_tensor_parallel", by_sequence ? scatter : sum, by_sequence ? gather : same,
                           trace);
  const Exchange start = [this, &ranks](const Tensor& part) {
    Tensor sum = part.clone(at::MemoryFormat::Contiguous);
    under_way_.push_back(ranks.all_reduce(sum));
    return sum;
  };
  start_leaving_ = linear_function("start_leaving_tensor_parallel", start, same, Trace::opaque);
}

Tensor Region::leave_in_parts(const Ops::Linear::Fn& linear, const Tensor& x, int64_t parts) const {
  under_way_.clear();
  Tensors sums;
  for (const Tensor& rows : x.tensor_split(parts, 1))
    sums.push_back(call(start_leaving_, {linear(rows)}).at(0));
  for (WorkHandle& sum : std::exchange(under_way_, {})) sum.wait();
  return at::cat(sums, 1);
}
}  // namespace optrush::tensor_parallel
