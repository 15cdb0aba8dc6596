#include "heads_exchange.h"

#include <ATen/Functions.h>

#include <functional>
#include <utility>

namespace optrush::context_parallel {
namespace {
/// Part r of the first axis goes to rank r, and comes from there.
Tensor exchanged(Group& ranks, const Tensor& parts) {
  const Tensor in = parts.contiguous();
  Tensor out = at::empty_like(in);
  ranks.all_to_all(out, in).wait();
  return out;
}

Tensor to_whole_sequence(Group& ranks, const Tensor& x) {
  const Tensor by_heads = x.unflatten(1, {ranks.size(), -1}).movedim(1, 0);  // (N, B, H / N, S / N, K)
  return exchanged(ranks, by_heads).permute({1, 2, 0, 3, 4}).flatten(2, 3);
}

Tensor to_all_heads(Group& ranks, const Tensor& x) {
  const Tensor by_positions = x.unflatten(2, {ranks.size(), -1}).movedim(2, 0);
  return exchanged(ranks, by_positions).movedim(0, 1).flatten(1, 2);
}

using Exchange = Tensor (*)(Group&, const Tensor&);

Differentiable pair_of(std::string name, Group& ranks, Exchange there, Exchange back) {
  return {{.name = std::move(name),
           .forward = [&ranks, there](const Tensors& in) -> Differentiable::Result {
             return {{there(ranks, in[0])}, {}};
           },
           .backward = [&ranks, back](const Tensors&, const Tensors& gradients) -> Tensors {
             return {back(ranks, gradients[0])};
           },
           .traits = {.trace = Trace::opaque, .offers = {feature::fp64}, .predictable = true},
           .cast = Cast::lower}};
}
}  // namespace

HeadsExchange::HeadsExchange(Group& ranks)
    : whole_sequence_(pair_of("whole_sequence", ranks, to_whole_sequence, to_all_heads)),
      all_heads_(pair_of("all_heads", ranks, to_all_heads, to_whole_sequence)) {}
}  // namespace optrush::context_parallel
