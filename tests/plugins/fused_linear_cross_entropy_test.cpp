// fused_linear_cross_entropy: loss and gradients of the plain form, and how little of the logits exists.
#include <gtest/gtest.h>

#include "loss_pair.h"
#include "measure/memory.h"
#include "model/operators.h"
#include "support/error_of.h"
#include "support/gradcheck.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
struct Problem {
  Tensor x, labels, weight;
};
Problem random_problem(at::ScalarType dtype = at::kDouble) {
  const auto options = at::TensorOptions(dtype);
  Problem problem{at::randn({2, 7, 5}, options), at::randint(11, {2, 7}, at::kLong),
                  at::randn({11, 5}, options)};
  problem.labels[0][3] = -100;
  problem.labels[1][6] = -100;
  problem.x.requires_grad_();
  problem.weight.requires_grad_();
  return problem;
}

TEST(FusedLinearCrossEntropy, IsThePlainLossWithItsGradientsAtEveryChunk) {
  for (const int64_t chunk : {0, 1, 3, 14, 100}) {
    SCOPED_TRACE(chunk);
    const Differentiable op = make_loss_pair(chunk, true);
    const auto fused = [&](const Tensors& in) { return call(op, {in[0], in[1], in[2]}); };
    const auto [x, labels, weight] = random_problem();
    const Tensor plain = plain::cross_entropy_sum(at::linear(x, weight), labels);
    (plain * 0.3).backward();
    const Tensor d_x = x.grad().clone(), d_weight = weight.grad().clone();
    x.mutable_grad().reset(), weight.mutable_grad().reset();
    const Tensor loss = fused({x, labels, weight}).at(0);
    (loss * 0.3).backward();
    EXPECT_NEAR(loss.item<double>(), plain.item<double>(), 1e-12);
    EXPECT_TRUE(at::allclose(x.grad(), d_x, 1e-12, 1e-12));
    EXPECT_TRUE(at::allclose(weight.grad(), d_weight, 1e-12, 1e-12));
    gradcheck(fused, {x, labels, weight});
  }
}

TEST(FusedLinearCrossEntropy, IgnoredLabelsCountForNothing) {
  const Differentiable op = make_loss_pair(3, true);
  const auto [x, labels, weight] = random_problem();
  const Tensor loss = call(op, {x, at::full_like(labels, -100), weight}).at(0);
  loss.backward();
  EXPECT_EQ(loss.item<double>(), 0);
  EXPECT_EQ(x.grad().abs().max().item<double>(), 0);
  EXPECT_EQ(weight.grad().abs().max().item<double>(), 0);
}

TEST(FusedLinearCrossEntropy, LogitsFarApartStayFinite) {
  const Differentiable op = make_loss_pair(1, true);
  const Tensor x = at::full({1, 1, 1}, 1e4).requires_grad_(), weight = at::tensor({1.0F, -1.0F}).view({2, 1});
  const Tensor loss = call(op, {x, at::ones({1, 1}, at::kLong), weight}).at(0);
  EXPECT_FLOAT_EQ(loss.item<float>(), 2e4F);
}

TEST(FusedLinearCrossEntropy, AFrozenMatrixCostsNoWork) {
  const auto [x, labels, weight] = random_problem();
  const auto saved = [&](bool trained) {
    return make_loss_pair(4, trained).forward({x.detach(), labels, weight.detach()}).saved.size();
  };
  EXPECT_EQ(saved(true), 2U);
  EXPECT_EQ(saved(false), 1U);
  const Differentiable frozen = make_loss_pair(4, false);
  call(frozen, {x, labels, weight.detach()}).at(0).backward();
  EXPECT_TRUE(x.grad().defined());
}

/// Peak bytes of a loss and its backward beyond what is there before and what they leave behind.
template <class Loss>
int64_t peak_of(const Loss& loss, const Problem& problem) {
  const int64_t before = cpu_allocated();
  reset_memory_peak(at::kCPU);
  loss(problem).backward();
  return memory_peak(at::kCPU).allocated - before;
}

TEST(FusedLinearCrossEntropy, KeepsATenthOfLogitsAndTheirGradientAtALargeVocabulary) {
  install_cpu_memory_tracking();
  constexpr int64_t kVocabulary = 128256, kTokens = 64, kWidth = 8;
  const auto problem = [] {
    return Problem{at::randn({1, kTokens, kWidth}).requires_grad_(),
                   at::randint(kVocabulary, {1, kTokens}, at::kLong), at::randn({kVocabulary, kWidth})};
  };
  const Differentiable op = make_loss_pair(2, /*weight_trained=*/false);
  const int64_t fused = peak_of(
      [&](const Problem& p) {
        return call(op, {p.x, p.labels, p.weight}).at(0);
      },
      problem());
  const int64_t plain =
      peak_of([](const Problem& p) { return plain::cross_entropy_sum(at::linear(p.x, p.weight), p.labels); },
              problem());
  const int64_t logits = kTokens * kVocabulary * 4;
  EXPECT_GE(plain, 2 * logits);
  EXPECT_LE(fused, 2 * logits / 10);
}

const PluginUse kFused = {"fused_linear_cross_entropy", {{"chunk", 5}}};

TEST(FusedLinearCrossEntropy, TrainsTheSameInDoubleTiedOrNot) {
  for (const bool tied : {true, false}) {
    RunSpec spec = nano_spec();
    spec.model["tie_embeddings"] = tied;
    spec.train.dtype = "fp64";
    const auto expected = losses(Trained(spec).train());
    spec.plugins = {kFused};
    const auto got = losses(Trained(spec).train());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12);
  }
}

TEST(FusedLinearCrossEntropy, MixedPrecisionIsThatOfThePlainForm) {
  for (const char* dtype : {"bf16", "fp16"}) {
    const PluginUse mixed = {"mixed_precision", {{"dtype", dtype}}};
    const Json expected = Trained(nano_spec({mixed})).train(),
               got = Trained(nano_spec({mixed, kFused})).train();
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(losses(got)[i], losses(expected)[i], 2e-3 * losses(expected)[i]) << dtype;
      const double norm = expected["steps"][i]["grad_norm"];
      EXPECT_NEAR(got["steps"][i]["grad_norm"].get<double>(), norm, 2e-2 * norm) << dtype;
    }
  }
}

TEST(FusedLinearCrossEntropy, WithoutLabelsOrGradientsTheHeadIsAsBefore) {
  Trained plain(nano_spec()), fused(nano_spec({kFused}));
  Batch batch;
  batch.tokens = at::randint(64, {2, 6}, at::kLong);
  batch.positions = at::arange(6, at::kLong).expand({2, 6});
  plain.session().prepare(batch);
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(at::equal(fused.session().forward(0, batch, {}), plain.session().forward(0, batch, {})));
  batch.labels = at::randint(64, {2, 6}, at::kLong);
  EXPECT_NEAR(fused.session().forward(0, batch, {}).item<double>(),
              plain.session().forward(0, batch, {}).item<double>(), 1e-5);
}

TEST(FusedLinearCrossEntropy, AnAdapterOnTheHeadIsRefusedByName) {
  const auto lora = [](const char* target) { return PluginUse{"lora", {{"target_modules", {target}}}}; };
  EXPECT_NO_THROW(Trained(nano_spec({lora("q_proj"), kFused})).train());
  const auto message = error_of([&] { Trained(nano_spec({lora("lm_head"), kFused})); });
  EXPECT_NE(message.find("an adapter added 'lm_head.lora_A.weight' to lm_head"), std::string::npos)
      << message;
}
}  // namespace
}  // namespace optrush::testing
