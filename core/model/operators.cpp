#include "model/operators.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <limits>

namespace optrush::plain {
at::ScalarType accumulate_type(const Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

Tensor norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const NormArgs& args) {
  const Tensor wide = x.to(accumulate_type(x));
  Tensor normed;
  if (args.kind == NormKind::rmsnorm) {
    normed = wide * (wide.pow(2).mean(-1, /*keepdim=*/true) + args.eps).rsqrt();
  } else {
    const Tensor centered = wide - wide.mean(-1, true);
    normed = centered * (centered.pow(2).mean(-1, true) + args.eps).rsqrt();
  }
  if (weight.defined()) normed = normed * weight;
  if (bias.defined()) normed = normed + bias;
  return normed.to(x.scalar_type());
}

Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const auto halves = x.chunk(2, -1);
  return (x * cos + at::cat({-halves[1], halves[0]}, -1) * sin).to(x.scalar_type());
}

Tensor split_in_heads(const Tensor& x, int64_t width) { return x.unflatten(-1, {-1, width}).transpose(1, 2); }

Tensor swiglu(const Tensor& gate, const Tensor& up) { return at::silu(gate) * up; }

Tensor geglu(const Tensor& gate, const Tensor& up, Activation activation) {
  if (activation == Activation::clamped_silu) {
    constexpr double kAlpha = 1.702, kLimit = 7;
    const Tensor low = gate.clamp_max(kLimit);
    return low * at::sigmoid(low * kAlpha) * (up.clamp(-kLimit, kLimit) + 1);
  }
  return at::gelu(gate, activation == Activation::gelu_tanh ? "tanh" : "none") * up;
}

Tensor squared_relu(const Tensor& x) { return at::relu(x).square(); }

Tensor soft_capped(const Tensor& x, double cap) {
  return cap == 0 ? x : (x.to(accumulate_type(x)) / cap).tanh() * cap;
}

Tensor cross_entropy_sum(const Tensor& logits, const Tensor& labels) {
  return at::cross_entropy_loss(logits.to(accumulate_type(logits)).flatten(0, -2), labels.flatten(), {},
                                at::Reduction::Sum, -100);
}

Differentiable cross_entropy_of_part(const VocabularyPart& part) {
  return {{.name = "cross_entropy_of_part",
           .forward = [part](const Tensors& in) -> Differentiable::Result {
             const Tensor logits = in[0].to(accumulate_type(in[0])).flatten(0, -2), labels = in[1].flatten();
             const auto [lse, of_label] = over_vocabulary(logits, labels, part);
             return {{(lse - of_label).mul(labels.ne(-100)).sum()}, {in[0], labels, lse}};
           },
           .backward = [part](const Tensors& saved, const Tensors& gradients) -> Tensors {
             const Tensor& given = saved[0];
             const Tensor logits = given.to(accumulate_type(given)).flatten(0, -2);
             const Tensor gradient = gradient_of_part(logits, saved[1], saved[2], part) * gradients[0];
             return {gradient.view(given.sizes()).to(given.scalar_type()), Tensor()};
           },
           .traits = {.trace = Trace::pair, .capturable = true, .offers = {feature::fp64}}}};
}

namespace {
/// Shapes of grouped-query attention: query heads of one key/value head are stacked along the sequence.
struct Heads {
  int64_t batch, heads, queries, groups, keys;
  Heads(const Tensor& q, const Tensor& k)
      : batch(q.size(0)), heads(q.size(1)), queries(q.size(2)), groups(k.size(1)), keys(k.size(2)) {}
  Tensor stacked(const Tensor& x) const { return x.reshape({batch, groups, heads / groups * queries, -1}); }
  Tensor apart(const Tensor& x) const { return x.view({batch, heads, queries, -1}); }
};

/// 0 where a query attends to a key, -inf elsewhere; shape (queries, keys) or (B, 1, queries, keys).
/// Undefined if every query attends to every key.
Tensor mask(const Heads& shape, const AttentionArgs& args, const at::TensorOptions& options) {
  const double never = -std::numeric_limits<double>::infinity();
  Tensor mask;
  if (args.causal) mask = at::full({shape.queries, shape.keys}, never, options).triu(1);
  if (args.has_window(shape.keys)) {
    const Tensor behind = at::full({shape.queries, shape.keys}, never, options).tril(-args.window);
    mask = mask.defined() ? mask + behind : behind;
  }
  if (!args.segments.defined()) return mask;
  const Tensor ids = args.segments.ids;
  const Tensor strangers = ids.unsqueeze(-1).ne(ids.unsqueeze(-2)).unsqueeze(1);
  const Tensor apart = at::zeros(strangers.sizes(), options).masked_fill(strangers, never);
  return mask.defined() ? mask + apart : apart;
}

/// ALiBi (arXiv:2108.12409): -slope x distance, shape (H, queries, keys). With n the largest power of two up
/// to the number of heads, the slopes are 2^(-8/n), 2^(-16/n), ...; additional heads use the slopes for 2n in
/// between, as in the authors' code.
Tensor linear_biases(const Heads& shape, const at::TensorOptions& options) {
  int64_t power = 1;
  while (power * 2 <= shape.heads) power *= 2;
  const auto slopes = [&](int64_t of, int64_t count, int64_t step) {
    const Tensor exponents =
        at::arange(1, 1 + step * count, step, options) * (-8.0 / static_cast<double>(of));
    return at::pow(2.0, exponents);
  };
  const Tensor slope = at::cat({slopes(power, power, 1), slopes(2 * power, shape.heads - power, 2)});
  const Tensor distance =
      (at::arange(shape.queries, options).unsqueeze(1) - at::arange(shape.keys, options)).abs();
  return slope.view({-1, 1, 1}) * -distance;
}

/// Scores (B, G, H/G x queries, keys), in the accumulation type.
Tensor scores_of(const Heads& shape, const Tensor& q, const Tensor& k, const AttentionArgs& args) {
  const Tensor products = at::matmul(shape.stacked(q * args.scale), k.transpose(-2, -1));
  return soft_capped(products.to(accumulate_type(q)), args.soft_cap);
}

/// Scores with -inf where a query does not attend to a key.
Tensor masked(const Heads& shape, const Tensor& scores, const AttentionArgs& args) {
  const Tensor hidden = mask(shape, args, scores.options());
  if (!hidden.defined() && !args.alibi) return scores;
  Tensor of_heads = shape.apart(scores);
  if (args.alibi) of_heads = of_heads + linear_biases(shape, scores.options());
  if (hidden.defined()) of_heads = of_heads + hidden;
  return of_heads.view({shape.batch, shape.groups, -1, shape.keys});
}

AttentionOut forward_half(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args) {
  const at::NoGradGuard no_grad;
  AttentionArgs with_lse = args;
  with_lse.lse = true;
  return attention(q, k, v, with_lse);
}

/// The derivative of softmax from its output: P = exp(scores - lse), dS = P (dP - rowsum(dO O) + dlse)
/// (arXiv:2205.14135, appendix B.4).
std::array<Tensor, 3> backward_half(const Tensor& gradient, const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& out, const Tensor& lse, const Tensor& lse_gradient,
                                    const AttentionArgs& args) {
  const at::NoGradGuard no_grad;
  const Heads shape(q, k);
  const auto type = accumulate_type(q);
  const Tensor upstream = shape.stacked(gradient.to(type)), row = shape.stacked(lse.to(type).unsqueeze(-1));
  Tensor scores = scores_of(shape, q, k, args);
  const Tensor weights = at::exp(masked(shape, scores, args) - row);
  if (args.soft_cap == 0) scores.reset();  // frees the scores; only the derivative of the cap needs them
  Tensor inner = (upstream * shape.stacked(out.to(type))).sum(-1, /*keepdim=*/true);
  if (lse_gradient.defined()) inner = inner - shape.stacked(lse_gradient.to(type).unsqueeze(-1));
  Tensor of_scores = weights * (at::matmul(upstream, v.to(type).transpose(-2, -1)) - inner) * args.scale;
  if (args.soft_cap != 0) of_scores = of_scores * (1 - (scores / args.soft_cap).square());
  const Tensor dq = shape.apart(at::matmul(of_scores, k.to(type)));
  const Tensor dk = at::matmul(of_scores.transpose(-2, -1), shape.stacked(q.to(type)));
  const Tensor dv = at::matmul(weights.transpose(-2, -1), upstream);
  return {dq.to(q.scalar_type()), dk.to(k.scalar_type()), dv.to(v.scalar_type())};
}
}  // namespace

AttentionOut attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args) {
  const Heads shape(q, k);
  const Tensor scores = masked(shape, scores_of(shape, q, k, args), args);
  const Tensor weights = at::softmax(scores, -1);
  AttentionOut result;
  result.out = shape.apart(at::matmul(weights.to(v.scalar_type()), v));
  if (args.lse) result.lse = at::logsumexp(scores, -1).view({shape.batch, shape.heads, shape.queries});
  return result;
}

AttentionForwardBackward attention_forward_backward() { return {forward_half, backward_half}; }
}  // namespace optrush::plain
