// The gated delta rule in chunks beside its recurrent form, also without correction (Mamba 2), the short
// convolution, and packed documents.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/delta_rule.h"
#include "optrush/scopes.h"

namespace optrush::testing {
namespace {
constexpr double kOfRule = 1e-11;
constexpr int64_t kBatch = 2, kGroups = 2, kHeads = 4, kKey = 6, kValue = 5;

DeltaRuleInputs random_rule(int64_t positions, at::ScalarType type = at::kDouble) {
  at::manual_seed(7);
  const auto random = [&](std::vector<int64_t> shape) { return at::randn(shape, type); };
  return {.q = random({kBatch, kGroups, positions, kKey}),
          .k = random({kBatch, kGroups, positions, kKey}),
          .v = random({kBatch, kHeads, positions, kValue}),
          .log_decay = -at::softplus(random({kBatch, kHeads, positions})),
          .beta = at::sigmoid(random({kBatch, kHeads, positions}))};
}

/// Documents of these lengths, the same in each row.
Tensor documents(const std::vector<int64_t>& lengths) {
  Tensors parts;
  for (size_t i = 0; i < lengths.size(); ++i)
    parts.push_back(at::full({kBatch, lengths[i]}, static_cast<int64_t>(i), at::kInt));
  return at::cat(parts, 1);
}

/// One position after another.
Tensor recurrent(const DeltaRuleInputs& in) {
  const auto unit = [&](const Tensor& x) {
    return in.corrects ? x * (x.square().sum(-1, true) + 1e-6).rsqrt() : x;
  };
  const int64_t shared = kHeads / kGroups;
  const double scale = in.corrects ? 1 / std::sqrt(static_cast<double>(kKey)) : 1;
  const Tensor q = unit(in.q).repeat_interleave(shared, 1) * scale;
  const Tensor k = unit(in.k).repeat_interleave(shared, 1), alpha = in.log_decay.exp();
  Tensor state = at::zeros({kBatch, kHeads, kKey, kValue}, in.v.options());
  Tensors out;
  for (int64_t t = 0; t < in.v.size(2); ++t) {
    if (t > 0 && in.documents.defined())
      state = state * in.documents.select(1, t).eq(in.documents.select(1, t - 1)).view({-1, 1, 1, 1});
    const auto at_t = [t](const Tensor& x) { return x.select(2, t).unsqueeze(-1); };
    state = state * at_t(alpha).unsqueeze(-1);
    const Tensor v = in.v.select(2, t), wrong = in.corrects ? v - (state * at_t(k)).sum(2) : v;
    const Tensor change = wrong * at_t(in.beta);
    state = state + at_t(k) * change.unsqueeze(2);
    out.push_back((state * at_t(q)).sum(2));
  }
  return at::stack(out, 2);
}

/// The output and the gradients of all inputs.
Tensors with_gradients(DeltaRuleInputs in, Tensor (*rule)(const DeltaRuleInputs&)) {
  for (Tensor* x : {&in.q, &in.k, &in.v, &in.log_decay, &in.beta}) *x = x->detach().clone().requires_grad_();
  const Tensor out = rule(in);
  at::manual_seed(8);
  out.backward(at::randn(out.sizes(), out.options()));
  return {out.detach(), in.q.grad(), in.k.grad(), in.v.grad(), in.log_decay.grad(), in.beta.grad()};
}

double apart(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

template <int64_t chunk>
Tensor in_chunks_of(const DeltaRuleInputs& in) {
  return plain::gated_delta_rule(in, chunk);
}

TEST(DeltaRule, ChunksEqualTheRecurrence) {
  const std::vector<std::vector<int64_t>> all = {{}, {39}, {16, 23}, {1, 7, 8, 20, 3}};
  for (const bool corrects : {true, false})
    for (const auto& lengths : all)
      for (const auto rule : {in_chunks_of<1>, in_chunks_of<8>, in_chunks_of<13>, in_chunks_of<64>}) {
        DeltaRuleInputs in = random_rule(39);
        in.corrects = corrects;
        if (!lengths.empty()) in.documents = documents(lengths);
        const Tensors expected = with_gradients(in, recurrent), got = with_gradients(in, rule);
        for (size_t i = 0; i < expected.size(); ++i)
          EXPECT_LT(apart(got[i], expected[i]), kOfRule) << corrects << ' ' << i;
      }
  DeltaRuleInputs longer = random_rule(150);
  for (const bool corrects : {true, false}) {
    longer.corrects = corrects;
    EXPECT_LT(apart(plain::gated_delta_rule(longer), recurrent(longer)), kOfRule) << "three chunks of 64";
  }
}

/// Equal keys that are fully corrected and do not decay: a sum of powers of the couplings would overflow.
TEST(DeltaRule, EqualKeysAreStable) {
  DeltaRuleInputs in = random_rule(128, at::kFloat);
  in.k = at::ones_like(in.k);
  in.log_decay = at::zeros_like(in.log_decay);
  in.beta = at::ones_like(in.beta);
  EXPECT_LT(apart(plain::gated_delta_rule(in), recurrent(in)), 1e-4);
}

TEST(DeltaRule, ComputesInFp32UnderAutocast) {
  const DeltaRuleInputs in = random_rule(40, at::kFloat);
  const Tensor expected = plain::gated_delta_rule(in, 16);
  const Autocast autocast(at::kCPU, at::kBFloat16);
  EXPECT_TRUE(at::equal(plain::gated_delta_rule(in, 16), expected));
}

TEST(CausalConvolution, EqualsAConvolutionOfEachDocument) {
  const Tensor x = at::randn({kBatch, 14, 3}, at::kDouble), weight = at::randn({3, 1, 4}, at::kDouble);
  const auto convolved = [&](const Tensor& part) {
    const Tensor channels = part.transpose(1, 2);
    return at::conv1d(channels, weight, {}, 1, 3, 1, 3).narrow(2, 0, part.size(1)).transpose(1, 2);
  };
  EXPECT_LT(apart(plain::causal_convolution(x, weight, {}), convolved(x)), kOfRule);
  const std::vector<int64_t> lengths = {2, 5, 1, 6};
  Tensors parts;
  for (const Tensor& part : x.split_with_sizes(lengths, 1)) parts.push_back(convolved(part));
  EXPECT_LT(apart(plain::causal_convolution(x, weight, documents(lengths)), at::cat(parts, 1)), kOfRule);
}
}  // namespace
}  // namespace optrush::testing
