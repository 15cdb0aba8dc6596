#include "ring.h"

#include <ATen/Functions.h>

#include <optional>
#include <utility>

namespace optrush::context_parallel {
namespace {
at::ScalarType sum_type(const Tensor& x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

/// Softmax over several sets of keys, of which each gave its own output and log-sum-exp.
class Merged {
 public:
  /// For all queries.
  explicit Merged(const AttentionOut& first)
      : out_(first.out.to(sum_type(first.out), /*non_blocking=*/false, /*copy=*/true)),
        lse_(first.lse.to(out_.scalar_type(), /*non_blocking=*/false, /*copy=*/true)) {}

  /// For the queries from `first` on.
  void add(const AttentionOut& part, int64_t first) {
    const Tensor out = out_.slice(2, first), lse = lse_.slice(2, first);
    const Tensor of_part = part.lse.to(lse.scalar_type());
    const Tensor sum = at::logaddexp(lse, of_part);
    out.mul_(at::exp(lse - sum).unsqueeze(-1));
    out.add_(part.out * at::exp(of_part - sum).unsqueeze(-1));
    lse.copy_(sum);
  }

  const Tensor& out() const { return out_; }
  const Tensor& lse() const { return lse_; }

 private:
  Tensor out_, lse_;
};

Tensor queries_of(const Tensor& x, int64_t first) { return x.slice(2, first); }
}  // namespace

Ring::Ring(Group& ranks, const AttentionArgs& args)
    : ranks_(ranks),
      args_(args),
      halves_(*args.halves),
      pair_{.name = "ring_attention",
            .forward = [this](const Tensors& in) { return forward(in); },
            .backward = [this](const Tensors& saved,
                               const Tensors& gradients) { return backward(saved, gradients[0]); },
            .traits = {.trace = Trace::opaque, .offers = {"double", "lse"}, .predictable = true},
            .cast = Cast::lower} {
  args_.halves = nullptr;
  args_.segments = {};
}

AttentionOut Ring::operator()(const Tensor& q, const Tensor& k, const Tensor& v) const {
  const Tensors result = call(pair_, {q, k, v});
  return {result.at(0), result.at(1).detach()};
}

int64_t Ring::owner_at(int64_t step) const { return (ranks_.rank() - step + ranks_.size()) % ranks_.size(); }

Ring::Step Ring::step_of(int64_t owner, int64_t length) const {
  if (!args_.causal || owner == ranks_.rank()) return {args_.causal, 0, length};
  if (owner < ranks_.rank()) return {false, 0, length / 2};
  return {false, length / 2, length};
}

AttentionArgs Ring::args_of(const Step& step) const {
  AttentionArgs args = args_;
  args.causal = step.causal;
  return args;
}

WorkHandle Ring::pass_on(const Tensor& tensor, Tensor& arriving) const {
  const int64_t n = ranks_.size(), rank = ranks_.rank();
  arriving = at::empty_like(tensor);
  return ranks_.exchange(arriving, (rank + n - 1) % n, tensor, (rank + 1) % n);
}

Differentiable::Result Ring::forward(const Tensors& qkv) const {
  const Tensor &q = qkv[0], &k = qkv[1], &v = qkv[2];
  const int64_t steps = ranks_.size(), length = q.size(2);
  Tensor here = at::stack({k, v}), next;
  std::optional<Merged> merged;
  for (int64_t i = 0; i < steps; ++i) {
    WorkHandle arrives;
    if (i + 1 < steps) arrives = pass_on(here, next);
    const Step step = step_of(owner_at(i), length);
    const AttentionOut part = halves_.forward(queries_of(q, step.first_query), here[0].slice(2, 0, step.keys),
                                              here[1].slice(2, 0, step.keys), args_of(step));
    if (merged)
      merged->add(part, step.first_query);
    else
      merged.emplace(part);
    arrives.wait();
    here = std::exchange(next, {});
  }
  // As a linear behind it takes it: heads of a row side by side in memory.
  const Tensor out = merged->out().to(q.scalar_type()).transpose(1, 2).contiguous().transpose(1, 2);
  return {{out, merged->lse()}, {q, k, v, out, merged->lse()}};
}

Tensors Ring::backward(const Tensors& saved, const Tensor& gradient) const {
  const Tensor &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3], &lse = saved[4];
  const int64_t steps = ranks_.size(), length = q.size(2);
  const auto type = sum_type(q);
  Tensor here = at::stack({k, v}), next;
  const Tensor of_queries = at::zeros(q.sizes(), q.options().dtype(type));
  Tensor of_own, travelling, coming;  // of keys and values
  WorkHandle comes;
  for (int64_t i = 0; i < steps; ++i) {
    WorkHandle arrives;
    if (i + 1 < steps) arrives = pass_on(here, next);
    const Step step = step_of(owner_at(i), length);
    const auto rows = [&](const Tensor& x) { return queries_of(x, step.first_query); };
    const auto [dq, dk, dv] =
        halves_.backward(rows(gradient), rows(q), here[0].slice(2, 0, step.keys),
                         here[1].slice(2, 0, step.keys), rows(out), rows(lse), args_of(step));
    rows(of_queries).add_(dq);
    if (i == 0) {
      of_own = at::stack({dk, dv}).to(type);
    } else {
      if (i == 1) travelling = at::zeros(here.sizes(), here.options().dtype(type));
      comes.wait();  // what the ranks before added for the same owner
      if (i > 1) travelling = std::exchange(coming, {});
      travelling[0].slice(2, 0, step.keys).add_(dk);
      travelling[1].slice(2, 0, step.keys).add_(dv);
      comes = pass_on(travelling, coming);
    }
    arrives.wait();
    here = std::exchange(next, {});
  }
  comes.wait();
  if (coming.defined()) of_own.add_(coming);
  return {of_queries.to(q.scalar_type()), of_own[0].to(k.scalar_type()), of_own[1].to(v.scalar_type())};
}
}  // namespace optrush::context_parallel
