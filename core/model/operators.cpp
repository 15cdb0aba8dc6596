#include "model/operators.h"

#include <ATen/Functions.h>

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

Tensor swiglu(const Tensor& gate, const Tensor& up) { return at::silu(gate) * up; }

Tensor cross_entropy_sum(const Tensor& logits, const Tensor& labels) {
  return at::cross_entropy_loss(logits.to(accumulate_type(logits)).flatten(0, -2), labels.flatten(), {},
                                at::Reduction::Sum, -100);
}

Differentiable cross_entropy_of_part(const VocabularyPart& part) {
  return {.name = "cross_entropy_of_part",
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
          .traits = {.trace = Trace::pair, .capturable = true, .offers = {"double"}}};
}
}  // namespace optrush::plain
