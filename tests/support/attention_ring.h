#pragma once
#include <ATen/Functions.h>

#include <array>
#include <limits>
#include <vector>

#include "optrush/ops.h"

namespace optrush::testing {
/// The output and lse of attention, and the gradients of q, k and v for an upstream gradient.
struct Attended {
  Tensor out, lse;
  std::array<Tensor, 3> gradients;
};

/// Inputs of an attention. `heads / groups` query heads share a key/value head.
struct AttentionInputs {
  Tensor q, k, v, gradient;
  AttentionArgs args;
  Tensor lse_gradient = {};  ///< undefined: the lse is not used
};
struct AttentionShape {
  int64_t batch = 2, heads = 4, groups = 2, queries = 12, keys = 12, width = 8;
  bool causal = true;
};
inline AttentionInputs attention_inputs(const AttentionShape& shape, const at::TensorOptions& options) {
  at::manual_seed(7);
  const auto random = [&](int64_t heads, int64_t positions) {
    // In memory as the output of a linear: (B, S, H, K).
    return at::randn({shape.batch, positions, heads, shape.width}, at::kDouble).to(options).transpose(1, 2);
  };
  AttentionInputs inputs{random(shape.heads, shape.queries),
                         random(shape.groups, shape.keys),
                         random(shape.groups, shape.keys),
                         random(shape.heads, shape.queries),
                         {}};
  inputs.args.causal = shape.causal;
  inputs.args.scale = 0.3;
  return inputs;
}

/// Rows with documents of these lengths. The lengths add up to whole rows.
inline Segments segments_of(const std::vector<int64_t>& lengths, int64_t rows, at::Device device = at::kCPU) {
  Segments segments;
  std::vector<int> starts = {0};
  Tensors ids;
  for (const int64_t length : lengths) {
    ids.push_back(at::full({length}, static_cast<int64_t>(starts.size()) - 1, at::kInt));
    starts.push_back(starts.back() + static_cast<int>(length));
    segments.max_seqlen = std::max(segments.max_seqlen, length);
  }
  segments.ids = at::cat(ids).view({rows, -1}).to(device);
  segments.cu_seqlens = at::tensor(starts, at::kInt).to(device);
  return segments;
}

/// Attention by its formula in the inputs' type, with repeated heads and a mask for each score. Gradients are
/// by autograd. It shares no code with the tested forms.
inline Attended attention_by_formula(const AttentionInputs& inputs) {
  const auto leaf = [](const Tensor& x) { return x.detach().clone().requires_grad_(); };
  const Tensor q = leaf(inputs.q), k = leaf(inputs.k), v = leaf(inputs.v);
  const int64_t shared = q.size(1) / k.size(1);
  Tensor scores = at::matmul(q, k.repeat_interleave(shared, 1).transpose(-2, -1)) * inputs.args.scale;
  if (const double cap = inputs.args.soft_cap; cap != 0) scores = cap * (scores / cap).tanh();
  Tensor hidden = at::zeros(scores.sizes(), scores.options().dtype(at::kBool));
  if (inputs.args.causal) hidden = hidden.logical_or(at::ones_like(hidden).triu(1));
  if (const Tensor& ids = inputs.args.segments.ids; ids.defined())
    hidden = hidden.logical_or(ids.unsqueeze(-1).ne(ids.unsqueeze(-2)).unsqueeze(1));
  const auto places = q.options().dtype(at::kLong);
  const Tensor distance = at::arange(q.size(2), places).unsqueeze(1) -
                          at::arange(k.size(2), places).unsqueeze(0);  // distance of a query to a key
  if (inputs.args.window != 0) hidden = hidden.logical_or(distance.ge(inputs.args.window));
  if (inputs.args.alibi) {
    // arXiv:2108.12409, section 3. For 6 heads, as the authors' code interpolates.
    const std::vector<double> slopes =
        q.size(1) == 6 ? std::vector{1.0 / 4, 1.0 / 16, 1.0 / 64, 1.0 / 256, 1.0 / 2, 1.0 / 8}
                       : std::vector{1.0 / 4, 1.0 / 16, 1.0 / 64, 1.0 / 256};
    scores = scores - at::tensor(slopes, scores.options()).view({-1, 1, 1}) * distance.abs();
  }
  scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  const Tensor out = at::matmul(at::softmax(scores, -1), v.repeat_interleave(shared, 1));
  const Tensor lse = at::logsumexp(scores, -1);
  Tensor sum = (out * inputs.gradient).sum();
  if (inputs.lse_gradient.defined()) sum = sum + (lse * inputs.lse_gradient).sum();
  sum.backward();
  return {out.detach(), lse.detach(), {q.grad(), k.grad(), v.grad()}};
}

inline Attended attention_by_forward_backward(const AttentionForwardBackward& halves,
                                              const AttentionInputs& in) {
  const auto [out, lse] = halves.forward(in.q, in.k, in.v, in.args);
  return {out, lse, halves.backward(in.gradient, in.q, in.k, in.v, out, lse, in.lse_gradient, in.args)};
}

/// Computes attention as a ring of `parts` ranks does, in one process: keys are split, outputs are merged by
/// their log-sum-exps, and each part's backward uses the merged values. Causal attention also splits queries:
/// a part of queries attends to all earlier parts of keys, causally to its own part, and not to later ones.
inline Attended attention_by_ring(const AttentionForwardBackward& halves, const AttentionInputs& in,
                                  int64_t parts) {
  const auto chunks = [](const Tensor& x, int64_t count) { return x.chunk(count, 2); };
  const int64_t rounds = in.args.causal ? parts : 1;
  const Tensors queries = chunks(in.q, rounds), upstream = chunks(in.gradient, rounds);
  const Tensors of_lse =
      in.lse_gradient.defined() ? chunks(in.lse_gradient, rounds) : Tensors(queries.size());
  const Tensors keys = chunks(in.k, parts), values = chunks(in.v, parts);
  Tensors outs, lses, dq, dk, dv;
  for (const Tensor& part : keys) {
    dk.push_back(at::zeros_like(part));
    dv.push_back(at::zeros_like(part));
  }
  for (size_t i = 0; i < queries.size(); ++i) {
    const size_t end = in.args.causal ? i + 1 : keys.size();
    const auto of_part = [&](size_t j) {
      AttentionArgs args = in.args;
      args.causal = in.args.causal && j == i;
      return args;
    };
    Tensor out, lse;
    for (size_t j = 0; j < end; ++j) {
      const auto part = halves.forward(queries[i], keys[j], values[j], of_part(j));
      const Tensor wide = part.out.to(part.lse.scalar_type());
      const Tensor sum = j == 0 ? part.lse : at::logaddexp(lse, part.lse);
      const Tensor added = wide * (part.lse - sum).exp().unsqueeze(-1);
      out = j == 0 ? added : out * (lse - sum).exp().unsqueeze(-1) + added;
      lse = sum;
    }
    dq.push_back(at::zeros_like(queries[i]));
    for (size_t j = 0; j < end; ++j) {
      const auto gradients =
          halves.backward(upstream[i], queries[i], keys[j], values[j], out, lse, of_lse[i], of_part(j));
      dq.back() += gradients[0];
      dk[j] += gradients[1];
      dv[j] += gradients[2];
    }
    outs.push_back(out);
    lses.push_back(lse);
  }
  return {at::cat(outs, 2), at::cat(lses, 2), {at::cat(dq, 2), at::cat(dk, 2), at::cat(dv, 2)}};
}

/// The largest difference of any element, relative to the largest element of the reference, or 1.
inline double difference(const Attended& is, const Attended& expected) {
  double worst = 0;
  const auto compare = [&](const Tensor& a, const Tensor& b) {
    const Tensor apart = (a.to(at::kDouble) - b.to(at::kDouble)).abs();
    if (!apart.isfinite().all().item<bool>()) worst = std::numeric_limits<double>::infinity();
    worst = std::max(worst, apart.max().item<double>() / std::max(1.0, b.abs().max().item<double>()));
  };
  compare(is.out, expected.out);
  compare(is.lse, expected.lse);
  for (size_t i = 0; i < 3; ++i) compare(is.gradients[i], expected.gradients[i]);
  return worst;
}
}  // namespace optrush::testing
