// fused_linear_cross_entropy: loss and gradients equal the plain form, and only a part of the logits exists
// at a time.
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <functional>

#include "fused_loss_cases.h"
#include "measure/memory.h"
#include "measure/step_costs.h"
#include "recipe/call_observer.h"
#include "simulated/device.h"
#include "support/error_of.h"
#include "support/gradcheck.h"
#include "support/instruction_set.h"
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

TEST(FusedLinearCrossEntropy, EqualsThePlainLossAndGradientsAtEveryChunk) {
  for (const int64_t chunk : {kAllTokens, int64_t{0}, int64_t{1}, int64_t{3}, int64_t{14}, int64_t{100}})
    for (const double soft_cap : {0.0, 2.0}) {
      SCOPED_TRACE(std::to_string(chunk) + ", soft cap " + std::to_string(soft_cap));
      const Differentiable op = make_loss_function({.chunk = chunk, .soft_cap = soft_cap});
      const auto fused = [&](const Tensors& in) { return call(op, {in[0], in[1], in[2]}); };
      const auto [x, labels, weight] = random_problem();
      const Tensor plain =
          plain::cross_entropy_sum(plain::soft_capped(at::linear(x, weight), soft_cap), labels);
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

TEST(FusedLinearCrossEntropy, EqualsThePlainLossInEachTypeAtAnyVocabulary) {
  for (const auto& [type, tolerance] : kLossTypes)
    for (const int64_t vocabulary : {2, 64, 131, 5001})
      for (const int64_t chunk : {0, 4})
        for (const double soft_cap : {0.0, 1.5})
          expect_plain_loss({type, tolerance, vocabulary, chunk, soft_cap});
}

TEST(FusedLinearCrossEntropy, EqualsThePlainLossWithEachInstructionSet) {
  for (int64_t rest = hwy::SupportedTargets(); rest != 0; rest &= rest - 1) {
    const InstructionSet chosen(rest & -rest);
    SCOPED_TRACE(hwy::TargetName(rest & -rest));
    for (const auto& [type, tolerance] : kLossTypes)
      for (const double soft_cap : {0.0, 1.5}) expect_plain_loss({type, tolerance, 131, 4, soft_cap});
    const Tensor nan = at::full({1, 2}, std::nan("")), weight = at::ones({70, 2});
    EXPECT_TRUE(
        call(make_loss_function({}), {nan, at::zeros({1}, at::kLong), weight})[0].isnan().item<bool>());
  }
}

TEST(FusedLinearCrossEntropy, TracedOperatorsEqualTheKernel) {
  for (const double soft_cap : {0.0, 1.5})
    for (const auto& [type, tolerance] : kLossTypes) {
      const LossForm form{.chunk = 20, .soft_cap = soft_cap};
      const Tensor x = at::randn({50, 8}, at::kDouble).to(type),
                   weight = at::randn({131, 8}, at::kDouble).to(type);
      Tensor labels = at::randint(131, {50}, at::kLong);
      labels[3] = -100;
      const auto kernel = linear_cross_entropy(x, labels, weight, form);
      const auto operators = linear_cross_entropy_by_operators(x, labels, weight, form);
      EXPECT_LE(apart(kernel.outputs[0], operators.outputs[0]), tolerance);
      for (size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(kernel.saved[i].scalar_type(), operators.saved[i].scalar_type());
        EXPECT_LE(apart(kernel.saved[i], operators.saved[i]), 2 * tolerance);
      }
    }
}

TEST(FusedLinearCrossEntropy, ALongSumDoesNotOverflowInFp16) {
  // 400 tokens push in the same direction. The gradient of the matrix is about 80,000, which overflows fp16.
  const Tensor x = at::full({400, 1}, 400.0, at::kHalf), weight = at::zeros({2, 1}, at::kHalf);
  for (const int64_t chunk : {kAllTokens, int64_t{0}, int64_t{100}}) {
    const auto saved =
        make_loss_function({.chunk = chunk})->forward({x, at::zeros({400}, at::kLong), weight}).saved;
    EXPECT_NEAR(saved.at(1)[1].item<double>(), 80000, 100);
  }
}

TEST(FusedLinearCrossEntropy, IsBitReproducible) {
  const Tensor x = at::randn({300, 16}), weight = at::randn({1000, 16}),
               labels = at::randint(1000, {300}, at::kLong);
  const auto run = [&] { return make_loss_function({.chunk = 64})->forward({x, labels, weight}); };
  const auto first = run();
  for (int i = 0; i < 3; ++i) {
    const auto again = run();
    EXPECT_TRUE(at::equal(again.outputs[0], first.outputs[0]));
    for (size_t j = 0; j < 2; ++j) EXPECT_TRUE(at::equal(again.saved[j], first.saved[j]));
  }
}

TEST(FusedLinearCrossEntropy, NoTokensGiveZeroLoss) {
  for (const int64_t chunk : {int64_t{0}, kAllTokens}) {
    const auto result = make_loss_function({.chunk = chunk})
                            ->forward({at::empty({0, 4}), at::empty({0}, at::kLong), at::ones({7, 4})});
    EXPECT_EQ(result.outputs[0].item<double>(), 0);
    EXPECT_EQ(result.saved[1].abs().max().item<double>(), 0);
  }
}

TEST(FusedLinearCrossEntropy, OneChunkSumsNoGradientInFp32) {
  const at::Device gpu = simulated::open(at::kCUDA);
  const auto options = at::TensorOptions(at::kBFloat16).device(gpu);
  const Tensors in = {at::empty({2, 64, 32}, options), at::empty({2, 64}, options.dtype(at::kLong)),
                      at::empty({500, 32}, options)};
  for (const int64_t chunk : {int64_t{64}, kAllTokens}) {
    const Params none{};
    StepCosts costs(none, gpu);
    costs.enter(Bucket::forward);
    make_loss_function({.chunk = chunk})->forward(in);
    costs.stop();
    EXPECT_EQ(costs.total().launches, chunk == kAllTokens ? 3 + 1 + 1 : 2 * (3 + 1) + 2);
  }
}

TEST(FusedLinearCrossEntropy, ALabelBeyondTheVocabularyIsAnError) {
  for (const int64_t label : {7, -1}) {
    const auto message = error_of([&] {
      make_loss_function({})->forward({at::ones({1, 4}), at::full({1}, label, at::kLong), at::ones({7, 4})});
    });
    EXPECT_NE(message.find("a label is " + std::to_string(label) + ", but the vocabulary has 7"),
              std::string::npos)
        << message;
  }
}

TEST(FusedLinearCrossEntropy, GpuFormMovesSixBytesPerBf16LogitWithoutHostWaits) {
  const at::Device gpu = simulated::open(at::kCUDA);
  constexpr int64_t kTokens = 8192, kWidth = 64, kVocabulary = 32001;
  const auto options = at::TensorOptions(at::kBFloat16).device(gpu);
  const Tensors in = {at::empty({2, kTokens / 2, kWidth}, options),
                      at::empty({2, kTokens / 2}, options.dtype(at::kLong)),
                      at::empty({kVocabulary, kWidth}, options)};
  const Params none{};
  StepCosts costs(none, gpu);
  costs.enter(Bucket::forward);
  const auto result = make_loss_function({.chunk = kTokens / 2})->forward(in);
  costs.stop();
  EXPECT_EQ(result.outputs[0].scalar_type(), at::kFloat);
  EXPECT_EQ(result.saved[0].sizes(), in[0].sizes());
  EXPECT_EQ(result.saved[1].sizes(), in[2].sizes());
  const OperatorCost cost = costs.total();
  // Two chunks of three products and a kernel; the sum of the losses, and one cast of the matrix's gradient.
  EXPECT_EQ(cost.launches, 2 * (3 + 1) + 2);
  EXPECT_EQ(cost.host_waits, 0);
  constexpr double kKernel = 6.0 * kTokens * kVocabulary + 12.0 * kTokens;
  constexpr double kRest = 4.0 * kTokens + 4 + 6.0 * kVocabulary * kWidth;
  EXPECT_DOUBLE_EQ(cost.elementwise_bytes, kKernel + kRest);
}

/// Two products of 0.3 differ from one if they are rounded, so equal bits show that none was made.
TEST(FusedLinearCrossEntropy, AKnownGradientIsMultipliedInTheKernel) {
  const auto [x, labels, weight] = random_problem(at::kBFloat16);
  const Differentiable op = make_loss_function({.chunk = 14});
  const Tensor factor = at::full({}, 0.3, at::kDouble);
  const auto made = op->forward({x.detach(), labels, weight.detach(), factor});
  const Tensors before = {made.saved[0].clone(), made.saved[1].clone()};
  const Tensors same = op->backward(made.saved, {at::full({}, 0.3, at::kFloat)});
  ASSERT_EQ(same.size(), 4U);
  EXPECT_TRUE(at::equal(same[0], before[0]) && at::equal(same[2], before[1]));
  const Tensors twice = op->backward(made.saved, {at::full({}, 0.6F, at::kFloat)});
  EXPECT_TRUE(at::equal(twice[0], before[0] * 2) && at::equal(twice[2], before[1] * 2));
}

TEST(FusedLinearCrossEntropy, GpuFormReadsNoGradientAgainIfTheFactorIsKnown) {
  const at::Device gpu = simulated::open(at::kCUDA);
  const auto options = at::TensorOptions(at::kBFloat16).device(gpu);
  Tensors in = {at::empty({2, 64, 32}, options), at::empty({2, 64}, options.dtype(at::kLong)),
                at::empty({500, 32}, options)};
  const Tensor gradient = at::empty({}, options.dtype(at::kFloat));
  const Differentiable op = make_loss_function({});
  for (const bool known : {false, true}) {
    if (known) in.push_back(at::empty({}, options.dtype(at::kDouble)));
    const auto saved = op->forward(in).saved;
    const Params none{};
    StepCosts costs(none, gpu);
    costs.enter(Bucket::backward);
    op->backward(saved, {gradient});
    costs.stop();
    EXPECT_EQ(costs.total().launches, 2);
    EXPECT_EQ(costs.total().host_waits, 0);
    const double numbers = 2 * 64 * 32 + 500 * 32;
    EXPECT_DOUBLE_EQ(costs.total().elementwise_bytes, known ? 2 * (4 + 8) : 2 * 4 + 2 * 2 * numbers);
  }
}

/// Of each head's loss in training: whether the gradient that the forward expected is the one that came.
std::vector<bool> expected_gradients(std::vector<PluginUse> plugins) {
  plugins.push_back({"fused_linear_cross_entropy", Json::object()});
  Tensor factor;
  std::vector<bool> found;
  const CallObserver observer([&](const Differentiable& op, const Tensors& inputs) {
    if (op->name == "linear_cross_entropy") factor = inputs.size() > 3 ? inputs[3] : Tensor();
  });
  Trained trained(nano_spec(plugins), [&](Recipe& recipe) {
    recipe.ops.head_loss.wrap(Phase::measure, [&](const Ops::HeadLoss::Fn& inner, const Module&) {
      return [&, inner](const Tensor& x, const Batch& batch, const Ops::HeadParts& parts) {
        Tensor loss = inner(x, batch, parts);
        if (loss.requires_grad())
          loss.register_hook([&, factor](const Tensor& gradient) {
            found.push_back(factor.defined() && at::equal(gradient, factor.to(gradient.scalar_type())));
          });
        return loss;
      };
    });
  });
  trained.train();
  return found;
}

TEST(FusedLinearCrossEntropy, TheGradientOfARunIsKnownBeforeItsForward) {
  const std::vector<PluginUse> stacks[] = {
      {},
      {{"mixed_precision", Json::object()}},
      {{"mixed_precision", {{"dtype", "fp16"}}}},
      {{"gradient_accumulation", {{"steps", 2}}}, {"bf16_weights", Json::object()}}};
  for (const auto& stack : stacks) {
    const auto found = expected_gradients(stack);
    EXPECT_GE(found.size(), 3U);
    EXPECT_TRUE(std::ranges::all_of(found, std::identity()));
  }
}

TEST(FusedLinearCrossEntropy, ChunksFillTheDeviceAndAreBoundedInBytes) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  const int64_t llama = 128256 * 2;  // bytes of a row in bf16
  EXPECT_EQ(automatic_chunk(llama, 16384, at::kCUDA), 4096);
  EXPECT_EQ(automatic_chunk(llama * 2, 16384, at::kCUDA), 4096);       // fp32: at most 2 GiB
  EXPECT_EQ(automatic_chunk(llama * 4, 16384, at::kCUDA), 16384 / 8);  // fp64: fewer rows
  EXPECT_EQ(automatic_chunk(32000 * 2, 16384, at::kCUDA), 16384);      // a small vocabulary: all at once
  EXPECT_LE(automatic_chunk(llama, 1000, at::kCPU) * llama, 64 * kMiB);
  EXPECT_EQ(automatic_chunk(llama, 300, at::kCPU), 150);  // equal chunks: with 261, the last would have 39
  EXPECT_EQ(automatic_chunk(128 * kMiB, 10, at::kCPU), 1);
}

TEST(FusedLinearCrossEntropy, IgnoredLabelsDoNotCount) {
  const Differentiable op = make_loss_function({.chunk = 3});
  const auto [x, labels, weight] = random_problem();
  const Tensor loss = call(op, {x, at::full_like(labels, -100), weight}).at(0);
  loss.backward();
  EXPECT_EQ(loss.item<double>(), 0);
  EXPECT_EQ(x.grad().abs().max().item<double>(), 0);
  EXPECT_EQ(weight.grad().abs().max().item<double>(), 0);
}

TEST(FusedLinearCrossEntropy, LogitsFarApartStayFinite) {
  const Differentiable op = make_loss_function({.chunk = 1});
  const Tensor x = at::full({1, 1, 1}, 1e4).requires_grad_(), weight = at::tensor({1.0F, -1.0F}).view({2, 1});
  const Tensor loss = call(op, {x, at::ones({1, 1}, at::kLong), weight}).at(0);
  EXPECT_FLOAT_EQ(loss.item<float>(), 2e4F);
}

TEST(FusedLinearCrossEntropy, FrozenMatrixCostsNoWork) {
  const auto [x, labels, weight] = random_problem();
  const auto saved = [&x = x, &labels = labels, &weight = weight](bool trained) {
    return make_loss_function({.chunk = 4, .wanted = {.weight = trained}})
        ->forward({x.detach(), labels, weight.detach()})
        .saved.size();
  };
  EXPECT_EQ(saved(true), 2U);
  EXPECT_EQ(saved(false), 1U);
  const Differentiable frozen = make_loss_function({.chunk = 4, .wanted = {.weight = false}});
  call(frozen, {x, labels, weight.detach()}).at(0).backward();
  EXPECT_TRUE(x.grad().defined());
}

/// Peak bytes of a loss and its backward, without inputs and results.
template <class Loss>
int64_t peak_of_loss(const Loss& loss, const Problem& problem) {
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
  const Differentiable op = make_loss_function({.chunk = 2, .wanted = {.weight = false}});
  const int64_t fused = peak_of_loss(
      [&](const Problem& p) {
        return call(op, {p.x, p.labels, p.weight}).at(0);
      },
      problem());
  const int64_t plain = peak_of_loss(
      [](const Problem& p) { return plain::cross_entropy_sum(at::linear(p.x, p.weight), p.labels); },
      problem());
  const int64_t logits = kTokens * kVocabulary * 4;
  EXPECT_GE(plain, 2 * logits);
  EXPECT_LE(fused, 2 * logits / 10);
  // Only one chunk of logits exists, because the gradient overwrites it.
  EXPECT_LE(fused, 2 * kVocabulary * 4 + 16384);
}

const PluginUse kFusedLoss = {"fused_linear_cross_entropy", {{"chunk", 5}}};

TEST(FusedLinearCrossEntropy, TrainsTheSameInDoubleTiedOrNotAndWithASoftCap) {
  for (const auto& [tied, soft_cap] : {std::pair(true, 0.0), std::pair(false, 0.0), std::pair(true, 0.7)}) {
    RunSpec spec = nano_spec();
    spec.model["tie_embeddings"] = tied;
    spec.model["logits_soft_cap"] = soft_cap;
    spec.train.dtype = "fp64";
    const auto expected = losses(Trained(spec).train());
    spec.plugins = {kFusedLoss};
    const auto got = losses(Trained(spec).train());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12);
  }
}

TEST(FusedLinearCrossEntropy, MixedPrecisionMatchesThePlainForm) {
  for (const char* dtype : {"bf16", "fp16"}) {
    const PluginUse mixed = {"mixed_precision", {{"dtype", dtype}}};
    const Json expected = Trained(nano_spec({mixed})).train(),
               got = Trained(nano_spec({mixed, kFusedLoss})).train();
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(losses(got)[i], losses(expected)[i], 2e-3 * losses(expected)[i]) << dtype;
      const double norm = expected["steps"][i]["grad_norm"];
      EXPECT_NEAR(got["steps"][i]["grad_norm"].get<double>(), norm, 2e-2 * norm) << dtype;
    }
  }
}

TEST(FusedLinearCrossEntropy, HeadIsUnchangedWithoutLabelsOrGradients) {
  const auto in_double = [](RunSpec spec) {
    spec.train.dtype = "fp64";
    return spec;
  };
  Trained plain(in_double(nano_spec())), fused(in_double(nano_spec({kFusedLoss})));
  Batch batch;
  batch.tokens = at::randint(64, {2, 6}, at::kLong);
  batch.positions = at::arange(6, at::kLong).expand({2, 6});
  plain.session().prepare(batch);
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(at::equal(fused.session().forward(0, batch, {}), plain.session().forward(0, batch, {})));
  batch.labels = at::randint(64, {2, 6}, at::kLong);
  EXPECT_NEAR(fused.session().forward(0, batch, {}).item<double>(),
              plain.session().forward(0, batch, {}).item<double>(), 1e-12);
}

TEST(FusedLinearCrossEntropy, AnAdapterOnTheHeadIsRefusedByName) {
  const auto lora = [](const char* target) { return PluginUse{"lora", {{"target_modules", {target}}}}; };
  EXPECT_NO_THROW(Trained(nano_spec({lora("q_proj"), kFusedLoss})).train());
  const auto message = error_of([&] { Trained(nano_spec({lora("lm_head"), kFusedLoss})); });
  EXPECT_NE(message.find("plugin 'fused_linear_cross_entropy' replaces head_loss and would ignore "
                         "'lm_head.lora_A.weight', which plugin 'lora' added to lm_head"),
            std::string::npos)
      << message;
}
}  // namespace
}  // namespace optrush::testing
