// The plain attention: the forward with its log-sum-exp, the backward over a part of the keys, both combined
// as a ring does, packed documents, and the rotary tables of its positions.
#include <gtest/gtest.h>

#include "model/operators.h"
#include "model/rotary.h"
#include "support/attention_ring.h"

namespace optrush::testing {
namespace {
constexpr double kExact = 1e-12, kRing = 1e-10;

std::string named(const AttentionShape& shape) {
  return std::string(shape.causal ? "causal" : "all") + ", " + std::to_string(shape.groups) + " groups, " +
         std::to_string(shape.queries) + " queries, " + std::to_string(shape.keys) + " keys";
}

std::vector<AttentionShape> shapes() {
  return {{.causal = true},
          {.causal = false},
          {.groups = 4, .causal = true},
          {.groups = 1, .causal = false},
          {.queries = 5, .keys = 13, .causal = false},
          {.queries = 12, .keys = 3, .causal = false},
          {.queries = 1, .keys = 1, .causal = true}};
}

/// The output, and gradients by autograd.
Attended attend(const AttentionInputs& in, bool lse) {
  const auto leaf = [](const Tensor& x) { return x.detach().clone().requires_grad_(); };
  const Tensor q = leaf(in.q), k = leaf(in.k), v = leaf(in.v);
  AttentionArgs args = in.args;
  args.lse = lse;
  const auto result = plain::attention(q, k, v, args);
  EXPECT_EQ(result.lse.defined(), lse);
  result.out.backward(in.gradient);
  return {result.out.detach(), lse ? result.lse.detach() : Tensor(), {q.grad(), k.grad(), v.grad()}};
}

TEST(PlainAttention, MatchesTheFormula) {
  for (const auto& shape : shapes()) {
    SCOPED_TRACE(named(shape));
    const auto inputs = attention_inputs(shape, at::kDouble);
    const auto with_lse = attend(inputs, true);
    EXPECT_LT(difference(with_lse, attention_by_formula(inputs)), kExact);
    EXPECT_TRUE(at::equal(attend(inputs, false).out, with_lse.out));
  }
}

TEST(PlainAttention, AppliesTheWindow) {
  for (const int64_t window : {1, 5, 11, 12, 40}) {
    auto inputs = attention_inputs({.causal = true}, at::kDouble);
    inputs.args.window = window;
    EXPECT_LT(difference(attend(inputs, true), attention_by_formula(inputs)), kExact) << window;
    inputs.args.segments = segments_of({5, 7, 1, 10, 1}, 2);
    EXPECT_LT(difference(attend(inputs, true), attention_by_formula(inputs)), kExact) << window << ", packed";
  }
}

TEST(PlainAttention, BiasesScoresByTheDistance) {
  for (const int64_t heads : {4, 6}) {
    auto inputs = attention_inputs({.heads = heads, .causal = true}, at::kDouble);
    inputs.args.alibi = true;
    EXPECT_LT(difference(attend(inputs, true), attention_by_formula(inputs)), kExact) << heads;
    EXPECT_LT(difference(attention_by_forward_backward(plain::attention_forward_backward(), inputs),
                         attention_by_formula(inputs)),
              kExact)
        << heads;
  }
}

TEST(PlainAttention, CapsScoresBeforeTheMask) {
  for (const int64_t window : {0, 5}) {
    auto inputs = attention_inputs({.causal = true}, at::kDouble);
    inputs.args.soft_cap = 0.8;
    inputs.args.window = window;
    const auto expected = attention_by_formula(inputs);
    EXPECT_LT(difference(attend(inputs, true), expected), kExact) << window;
    EXPECT_LT(
        difference(attention_by_forward_backward(plain::attention_forward_backward(), inputs), expected),
        kExact)
        << window;
    if (window == 0) {
      const auto ring = attention_by_ring(plain::attention_forward_backward(), inputs, 3);
      EXPECT_LT(difference(ring, expected), kRing);
    }
    inputs.args.soft_cap = 0;
    EXPECT_GT(difference(attend(inputs, true), expected), 1e-2) << "the cap has no effect";
  }
}

TEST(AttentionForwardBackward, WindowWithoutACausalMaskMatchesTheFormula) {
  for (const int64_t window : {1, 5, 12}) {
    auto inputs = attention_inputs({.causal = false}, at::kDouble);
    inputs.args.window = window;
    EXPECT_LT(difference(attention_by_forward_backward(plain::attention_forward_backward(), inputs),
                         attention_by_formula(inputs)),
              kExact)
        << window;
  }
}

TEST(PlainAttention, LogSumExpIsDifferentiable) {
  auto inputs = attention_inputs({.width = 2}, at::kDouble);
  inputs.args.lse = true;
  const auto lse_of = [&](const Tensor& q) {
    return plain::attention(q, inputs.k, inputs.v, inputs.args).lse;
  };
  const Tensor q = inputs.q.clone().requires_grad_(), direction = at::randn_like(inputs.q);
  lse_of(q).sum().backward();
  constexpr double kStep = 1e-5;
  const Tensor change = lse_of(inputs.q + kStep * direction) - lse_of(inputs.q - kStep * direction);
  EXPECT_NEAR((q.grad() * direction).sum().item<double>(), change.sum().item<double>() / (2 * kStep), 1e-8);
}

TEST(AttentionForwardBackward, ForwardEqualsAttentionWithLogSumExp) {
  const auto halves = plain::attention_forward_backward();
  for (const auto& shape : shapes()) {
    SCOPED_TRACE(named(shape));
    auto inputs = attention_inputs(shape, at::kDouble);
    inputs.args.lse = true;
    const auto whole = plain::attention(inputs.q, inputs.k, inputs.v, inputs.args);
    inputs.args.lse = false;  // the forward half returns it anyway
    const auto half = halves.forward(inputs.q.requires_grad_(), inputs.k, inputs.v, inputs.args);
    EXPECT_TRUE(at::equal(half.out, whole.out));
    EXPECT_TRUE(at::equal(half.lse, whole.lse));
    EXPECT_FALSE(half.out.requires_grad());
  }
}

TEST(AttentionForwardBackward, BackwardEqualsAutograd) {
  for (const auto& shape : shapes()) {
    SCOPED_TRACE(named(shape));
    const auto inputs = attention_inputs(shape, at::kDouble);
    EXPECT_LT(difference(attention_by_forward_backward(plain::attention_forward_backward(), inputs),
                         attention_by_formula(inputs)),
              kExact);
  }
}

TEST(AttentionForwardBackward, TheGradientOfTheLogSumExpIsAdded) {
  for (const auto& shape : shapes())
    for (const double cap : {0.0, 2.0}) {
      SCOPED_TRACE(named(shape));
      auto inputs = attention_inputs(shape, at::kDouble);
      inputs.args.soft_cap = cap;
      inputs.lse_gradient = at::randn({shape.batch, shape.heads, shape.queries}, at::kDouble);
      const auto expected = attention_by_formula(inputs);
      EXPECT_LT(
          difference(attention_by_forward_backward(plain::attention_forward_backward(), inputs), expected),
          kExact);
      if (shape.queries < 12 || shape.keys < 12) continue;
      EXPECT_LT(difference(attention_by_ring(plain::attention_forward_backward(), inputs, 3), expected),
                kRing);
    }
}

TEST(AttentionForwardBackward, TypesFollowTheInputs) {
  for (const auto& [type, of_lse] : {std::pair(at::kDouble, at::kDouble), std::pair(at::kFloat, at::kFloat),
                                     std::pair(at::kBFloat16, at::kFloat)}) {
    const auto inputs = attention_inputs({}, type);
    const auto got = attention_by_forward_backward(plain::attention_forward_backward(), inputs);
    EXPECT_EQ(got.out.scalar_type(), type);
    EXPECT_EQ(got.lse.scalar_type(), of_lse);
    for (const Tensor& gradient : got.gradients) EXPECT_EQ(gradient.scalar_type(), type);
  }
}

TEST(AttentionForwardBackward, RingOfPartsEqualsTheWhole) {
  for (const auto& shape : {AttentionShape{.causal = true}, AttentionShape{.groups = 4, .causal = true},
                            AttentionShape{.causal = false}, AttentionShape{.keys = 13, .causal = false}})
    for (const int64_t parts : {2, 3, 4}) {
      SCOPED_TRACE(named(shape) + ", parts " + std::to_string(parts));
      const auto inputs = attention_inputs(shape, at::kDouble);
      EXPECT_LT(difference(attention_by_ring(plain::attention_forward_backward(), inputs, parts),
                           attention_by_formula(inputs)),
                kRing);
    }
}

TEST(AttentionForwardBackward, ABackwardWithAPartsOwnLogSumExpIsWrong) {
  // The ring test needs results that depend on the merged values.
  const auto inputs = attention_inputs({.causal = false}, at::kDouble);
  auto halves = plain::attention_forward_backward();
  halves.backward = [whole = halves](const Tensor& gradient, const Tensor& q, const Tensor& k,
                                     const Tensor& v, const Tensor&, const Tensor&,
                                     const Tensor& lse_gradient, const AttentionArgs& args) {
    const auto own = whole.forward(q, k, v, args);
    return whole.backward(gradient, q, k, v, own.out, own.lse, lse_gradient, args);
  };
  EXPECT_GT(difference(attention_by_ring(halves, inputs, 2), attention_by_formula(inputs)), 1e-2);
}

/// Rows of 12: documents of 5 and 7, and of 1, 10 and 1.
AttentionInputs packed(bool causal) {
  auto inputs = attention_inputs({.causal = causal}, at::kDouble);
  inputs.args.segments = segments_of({5, 7, 1, 10, 1}, 2);
  return inputs;
}

/// Each document computed separately, written back to its place.
Attended documents_alone(const AttentionInputs& in) {
  Attended result{at::zeros_like(in.q), at::zeros({2, 4, 12}, at::kDouble), {}};
  result.gradients = {at::zeros_like(in.q), at::zeros_like(in.k), at::zeros_like(in.v)};
  const Tensor& starts = in.args.segments.cu_seqlens;
  for (int64_t i = 0; i + 1 < starts.numel(); ++i) {
    const auto first = starts[i].item<int64_t>(), end = starts[i + 1].item<int64_t>();
    const int64_t row = first / 12;
    const auto piece = [&](const Tensor& x) {
      return x.narrow(0, row, 1).narrow(2, first - row * 12, end - first);
    };
    AttentionInputs one{piece(in.q), piece(in.k), piece(in.v), piece(in.gradient), in.args};
    one.args.segments = {};
    const auto alone = attention_by_formula(one);
    piece(result.out).copy_(alone.out);
    piece(result.lse).copy_(alone.lse);
    for (size_t j = 0; j < 3; ++j) piece(result.gradients[j]).copy_(alone.gradients[j]);
  }
  return result;
}

TEST(PackedDocuments, EqualSeparateDocuments) {
  for (const bool causal : {true, false}) {
    const auto inputs = packed(causal);
    const auto alone = documents_alone(inputs);
    EXPECT_LT(difference(attention_by_formula(inputs), alone), kExact);
    EXPECT_LT(difference(attend(inputs, true), alone), kExact);
    EXPECT_LT(difference(attention_by_forward_backward(plain::attention_forward_backward(), inputs), alone),
              kExact);
  }
}

TEST(RotaryTables, OneRowServesEqualRows) {
  const RotaryTable table = rotary_table({.dim = 16, .n_heads = 2, .rope_theta = 10000});
  const Tensor once = at::arange(5, at::kLong).expand({3, 5});
  const Tensor x = at::rand({3, 2, 5, 8});
  const auto [cos, sin] = rotary(once, table, at::kFloat);
  const auto [every_cos, every_sin] = rotary(once.contiguous(), table, at::kFloat);
  EXPECT_EQ(cos.sizes(), (std::vector<int64_t>{1, 1, 5, 8}));
  EXPECT_EQ(every_cos.sizes(), (std::vector<int64_t>{3, 1, 5, 8}));
  EXPECT_TRUE(at::equal(plain::rotate(x, cos, sin), plain::rotate(x, every_cos, every_sin)));
  EXPECT_TRUE(at::equal(cos.expand({3, -1, -1, -1}), every_cos));
  EXPECT_TRUE(at::equal(sin.expand({3, -1, -1, -1}), every_sin));
}
}  // namespace
}  // namespace optrush::testing
