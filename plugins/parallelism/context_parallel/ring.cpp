#include "ring.h"

#include <ATen/Functions.h>

#include <limits>
#include <optional>
#include <tuple>
#include <utility>

namespace optrush::context_parallel {
namespace {
at::ScalarType sum_type(const Tensor& x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

Tensor queries_of(const Tensor& x, const Block& block) {
  return x.narrow(2, block.first_query, block.queries);
}

/// Softmax over several sets of keys, each with a separate output and log-sum-exp.
class Merged {
 public:
  /// The result for an empty set of keys.
  explicit Merged(const Tensor& q)
      : out_(at::zeros(q.sizes(), q.options().dtype(sum_type(q)))),
        lse_(at::full({q.size(0), q.size(1), q.size(2)}, -std::numeric_limits<double>::infinity(),
                      out_.options())) {}
  /// The result for a first set of keys, which all queries see.
  explicit Merged(const AttentionOut& first)
      : out_(first.out.to(sum_type(first.out), /*non_blocking=*/false, /*copy=*/true)),
        lse_(first.lse.to(out_.scalar_type(), /*non_blocking=*/false, /*copy=*/true)) {}

  void add(const AttentionOut& part, const Block& block) {
    const Tensor out = queries_of(out_, block), lse = queries_of(lse_, block);
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

/// The block's part of keys and values (2, B, G, S / N, K), or of their gradients.
Tensor keys_of(const Tensor& both, const Block& block) { return both.narrow(3, block.first_key, block.keys); }
}  // namespace

Ring::Ring(Group& ranks, const AttentionArgs& args)
    : ranks_(ranks),
      args_(args),
      halves_(*args.halves),
      pair_{{.name = "ring_attention",
             .forward = [this](const Tensors& in) { return forward(in); },
             .backward = [this](const Tensors& saved,
                                const Tensors& gradients) { return backward(saved, gradients); },
             .traits = {.trace = Trace::opaque, .offers = {feature::fp64, feature::lse}, .predictable = true},
             .cast = Cast::lower}} {
  args_.halves = nullptr;
  args_.segments = {};
}

AttentionOut Ring::operator()(const Tensor& q, const Tensor& k, const Tensor& v) const {
  const Tensors result = call(pair_, {q, k, v});
  return {result.at(0), result.at(1)};
}

bool Ring::is_for(const AttentionArgs& args) const {
  const auto values = [](const AttentionArgs& of) {
    return std::tuple(of.causal, of.scale, of.window, of.alibi, of.soft_cap);
  };
  return values(args) == values(args_);
}

std::vector<Block> Ring::blocks_at(int64_t step, int64_t length) const {
  if (!args_.causal) return {{.queries = length, .keys = length}};
  const int64_t ranks = ranks_.size(), owner = (ranks_.rank() - step + ranks) % ranks;
  return blocks_of({.ranks = ranks, .length = length, .window = args_.window}, ranks_.rank(), owner);
}

AttentionArgs Ring::args_of(const Block& block) const {
  AttentionArgs args = args_;
  args.causal = block.causal;
  args.window = block.window;
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
    for (const Block& block : blocks_at(i, length)) {
      const Tensor keys = keys_of(here, block);
      const AttentionOut part = halves_.forward(queries_of(q, block), keys[0], keys[1], args_of(block));
      if (!merged && block.queries == length) {
        merged.emplace(part);
        continue;
      }
      if (!merged) merged.emplace(q);
      merged->add(part, block);
    }
    arrives.wait();
    here = std::exchange(next, {});
  }
  // Heads of a row are adjacent in memory, as the next linear reads them.
  const Tensor out = merged->out().to(q.scalar_type()).transpose(1, 2).contiguous().transpose(1, 2);
  return {{out, merged->lse()}, {q, k, v, out, merged->lse()}};
}

Tensors Ring::backward(const Tensors& saved, const Tensors& gradients) const {
  const Tensor &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3], &lse = saved[4];
  const Tensor gradient = gradients[0].defined() ? gradients[0] : at::zeros_like(out);
  const int64_t steps = ranks_.size(), length = q.size(2);
  const auto type = sum_type(q);
  Tensor here = at::stack({k, v}), next;
  const Tensor of_queries = at::zeros(q.sizes(), q.options().dtype(type));
  Tensor of_own, travelling, coming;  // gradients of keys and values
  WorkHandle comes;
  for (int64_t i = 0; i < steps; ++i) {
    WorkHandle arrives;
    if (i + 1 < steps) arrives = pass_on(here, next);
    const auto blocks = blocks_at(i, length);
    std::vector<Tensors> of_keys;
    for (const Block& block : blocks) {
      const auto rows = [&](const Tensor& x) { return x.defined() ? queries_of(x, block) : x; };
      const Tensor keys = keys_of(here, block);
      auto [dq, dk, dv] = halves_.backward(rows(gradient), rows(q), keys[0], keys[1], rows(out), rows(lse),
                                           rows(gradients[1]), args_of(block));
      rows(of_queries).add_(dq);
      of_keys.push_back({std::move(dk), std::move(dv)});
    }
    const auto add_to = [&](const Tensor& sum) {
      for (size_t j = 0; j < blocks.size(); ++j)
        for (int64_t of = 0; of < 2; ++of)
          keys_of(sum, blocks[j])[of].add_(of_keys[j][static_cast<size_t>(of)]);
    };
    if (i == 0 && blocks.size() == 1) {
      of_own = at::stack(of_keys.front()).to(type);
    } else if (i == 0) {
      of_own = at::zeros(here.sizes(), here.options().dtype(type));
      add_to(of_own);
    } else {
      if (i == 1) travelling = at::zeros(here.sizes(), here.options().dtype(type));
      comes.wait();  // what the ranks before added for the same owner
      if (i > 1) travelling = std::exchange(coming, {});
      add_to(travelling);
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
