// Training: its losses against references, and the checks that refuse a run without training.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "measure/memory.h"
#include "model/operators.h"
#include "optrush/optimizer.h"
#include "support/error_of.h"
#include "support/training.h"
#include "train/state.h"

namespace optrush::testing {
namespace {
TEST(Training, FullCheckpointingKeepsBlockInputsAndOneBlock) {
  const auto activations = [](int64_t layers, std::vector<PluginUse> stack) {
    RunSpec spec = nano_spec(std::move(stack));
    spec.model["n_layers"] = layers;
    return Trained(spec).train()["memory"]["parts"]["activations"].get<int64_t>();
  };
  const std::vector<PluginUse> full = {{"activation_checkpointing", Json::object()}};
  const int64_t input = 4 * 16 * 32 * 4;  // (B, S, D) fp32
  EXPECT_EQ(activations(6, full) - activations(5, full), input);
}

TEST(Training, ALossThatIsNotFiniteFails) {
  RunSpec spec = nano_spec();
  spec.train.lr = 1e30;
  spec.train.steps = 6;
  EXPECT_NE(error_of([&] { Trained(spec).train(); }).find("is not finite at step"), std::string::npos);
}

TEST(Training, UnchangedParametersFail) {
  RunSpec spec = nano_spec();
  spec.train.lr = 0;
  EXPECT_NE(error_of([&] { Trained(spec).train(); }).find("no parameter changed"), std::string::npos);
}

/// The warnings of a run that leaks `bytes(i)` bytes in the timed step `i`.
std::vector<std::string> warnings_of_leak(int64_t steps, const std::function<int64_t(int64_t)>& bytes) {
  install_cpu_memory_tracking();
  RunSpec spec = nano_spec();
  spec.train.steps = steps;
  Tensors left;
  Trained trained(spec, [&](Recipe& recipe) {
    recipe.on(Event::step_end, Phase::base,
              [&](optrush::Run& run) { left.push_back(at::empty({bytes(run.step() - 1)}, at::kByte)); });
  });
  trained.train();
  return trained.session().log().warnings();
}

TEST(Training, MemoryThatGrowsFromStepToStepIsAWarning) {
  for (const int64_t steps : {5, 12}) {
    const auto found = warnings_of_leak(steps, [](int64_t) { return 24; });
    ASSERT_EQ(found.size(), 1U) << steps;
    EXPECT_NE(found.front().find("in the host's memory grow by 24 bytes per step"), std::string::npos);
  }
  const auto third = warnings_of_leak(12, [](int64_t i) { return i % 3 == 0 ? 30 : 0; });
  ASSERT_EQ(third.size(), 1U) << "every third step leaks";
  for (const int64_t steps : {5, 12}) {
    EXPECT_TRUE(warnings_of_leak(steps, [](int64_t) { return 0; }).empty());
    EXPECT_TRUE(warnings_of_leak(steps, [](int64_t i) { return i == 4 ? 4096 : 0; }).empty())
        << "a cache that fills late is not a leak";
  }
}

std::vector<std::string> warnings_of_training(const char* dtype, double lr,
                                              std::vector<PluginUse> plugins = {}) {
  RunSpec spec = nano_spec(std::move(plugins));
  spec.train.dtype = dtype;
  spec.train.lr = lr;
  spec.train.steps = 10;
  Trained trained(spec);
  trained.train();
  return trained.session().log().warnings();
}

TEST(Training, UpdatesLostToLowPrecisionAreAWarning) {
  const auto lost = warnings_of_training("bf16", 1e-6);
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_NE(lost.front().find("0 % of the elements of vectors (norms, biases) and "), std::string::npos);
  EXPECT_NE(lost.front().find("of the elements of matrices (mean of 8 updates)"), std::string::npos);
  EXPECT_NE(lost.front().find("fp32 master weights"), std::string::npos);
  EXPECT_TRUE(warnings_of_training("bf16", 1e-2).empty());
  EXPECT_TRUE(warnings_of_training("fp32", 1e-6).empty());
  EXPECT_TRUE(warnings_of_training("fp32", 1e-6, {{"bf16_weights", Json::object()}}).empty())
      << "masters have more bits than weights";
}

/// The largest decay in bf16 is that of the largest number below a power of two.
TEST(Training, SecondMomentsThatNeverFallAreAWarning) {
  const auto falls = [](at::ScalarType type, double decay) {
    const Tensor all = (at::arange(1024, 2048, at::kDouble) / 1024).to(type);
    return (all * decay).lt(all).any().item<bool>();
  };
  const auto warns = [](const char* dtype, double beta2, std::vector<PluginUse> plugins = {}) {
    RunSpec spec = nano_spec(std::move(plugins));
    spec.train.dtype = dtype;
    spec.train.lr = 1e-2;
    spec.train.beta2 = beta2;
    Trained trained(spec);
    trained.train();
    return Json(trained.session().log().warnings()).dump().find("second moments are kept in bf16") !=
           std::string::npos;
  };
  for (const double beta2 : {0.9, 0.99, 0.997, 0.998, 0.9985, 0.999, 0.9999})
    EXPECT_EQ(warns("bf16", beta2), !falls(at::kBFloat16, beta2)) << beta2;
  EXPECT_TRUE(warns("bf16", 0.999, {{"fused_adamw", Json::object()}}));
  EXPECT_FALSE(warns("fp32", 0.999));
  EXPECT_FALSE(warns("fp32", 0.999, {{"bf16_weights", Json::object()}})) << "its moments are in fp32";
}

/// Notes and warnings of ten steps, of which the first updates are skipped.
std::pair<std::string, std::string> said_with_skipped(int64_t skipped, int64_t lr_warmup) {
  RunSpec spec = nano_spec();
  spec.train.warmup = 1;
  spec.train.steps = 9;
  spec.train.lr_warmup = lr_warmup;
  Trained trained(spec, [&](Recipe& recipe) {
    recipe.gradients.wrap(Phase::precision, [skipped](auto inner) {
      return [inner, skipped, step = int64_t{0}](Gradients& gradients, Update& update) mutable {
        inner(gradients, update);
        update.skip = at::full({}, step++ < skipped ? 1.0 : 0.0);
      };
    });
  });
  trained.train();
  const RunLog& log = trained.session().log();
  return {Json(log.notes()).dump(), Json(log.warnings()).dump()};
}

TEST(Training, SkippedUpdatesAreNotedAndTheWarmUpThatTheyUsedIsAWarning) {
  const auto [none, nothing] = said_with_skipped(0, 4);
  EXPECT_EQ(none.find("skipped"), std::string::npos) << none;
  EXPECT_EQ(nothing, "[]");
  const auto [one, no_warning] = said_with_skipped(1, 4);
  EXPECT_NE(one.find("1 update of 10 was skipped, because gradients overflowed"), std::string::npos) << one;
  EXPECT_EQ(no_warning, "[]");
  const auto [three, warning] = said_with_skipped(3, 4);
  EXPECT_NE(three.find("3 updates of 10 were skipped"), std::string::npos) << three;
  EXPECT_NE(warning.find("3 of the 4 steps in which the learning rate rises had no update"),
            std::string::npos)
      << warning;
}

/// An optimizer with the plain optimizer's list of states, changed by `listed`.
std::string error_of_listing(const std::function<void(std::vector<OptimizerState>&)>& listed) {
  struct Lister final : Optimizer {
    std::unique_ptr<Optimizer> inner;
    std::function<void(std::vector<OptimizerState>&)> listed;
    void step(std::span<Shard> shards, const Update& update) override { inner->step(shards, update); }
    std::vector<OptimizerState> state(const Shard& shard) override {
      auto states = inner->state(shard);
      listed(states);
      return states;
    }
  };
  return error_of([&] {
    Trained(nano_spec(), [&](Recipe& recipe) {
      recipe.optimizer.wrap(Phase::optimizer, [&](auto inner) {
        return [&, inner](optrush::Run& run, std::span<Shard> shards) -> std::unique_ptr<Optimizer> {
          auto lister = std::make_unique<Lister>();
          lister->inner = inner(run, shards);
          lister->listed = listed;
          return lister;
        };
      });
    }).train();
  });
}

TEST(Training, AnOptimizerThatListsItsStateWronglyFails) {
  EXPECT_NE(error_of_listing([](auto& states) {
              states.push_back(states.front());
            }).find("lists 'exp_avg' of 'model.embed_tokens.weight', which is listed twice"),
            std::string::npos);
  EXPECT_NE(error_of_listing([](auto& states) {
              states.front().value = at::zeros({3});
            }).find("which has 3 entries, but 2048 elements in blocks of 1 need 2048"),
            std::string::npos);
  EXPECT_NE(error_of_listing([](auto& states) { states.back().block = 64; }).find("in blocks of 64 need 32"),
            std::string::npos);
  EXPECT_NE(error_of_listing([](auto& states) { states.front().value = Tensor(); }).find("has no tensor"),
            std::string::npos);
}

TEST(Training, AZeroGradientFails) {
  const auto message = error_of([] {
    Trained(nano_spec(), [](Recipe& recipe) {
      // The loss is unchanged, and its gradient is zero.
      recipe.ops.head_loss.wrap(Phase::measure, [](const Ops::HeadLoss::Fn& inner, const Module&) {
        return Ops::HeadLoss::Fn([inner](const Tensor& x, const Tensor& labels, const Ops::HeadParts& parts) {
          const Tensor loss = inner(x, labels, parts);
          return loss.detach() + 0 * loss;
        });
      });
    }).train();
  });
  EXPECT_NE(message.find("the gradient norm is zero at step 0"), std::string::npos) << message;
}

TEST(Training, GradientNormDoesNotDependOnTheScaleOfTheBackward) {
  const auto norms = [](const std::function<void(Recipe&)>& edit) {
    std::vector<double> values;
    const Json result = Trained(nano_spec(), edit).train();
    for (const auto& step : result["steps"]) values.push_back(step["grad_norm"]);
    EXPECT_FALSE(values.empty());
    return values;
  };
  const auto scaled = norms([](Recipe& recipe) {
    constexpr double kScale = 1024;  // a power of two does not change the bits of a gradient
    recipe.loss_gradient.replace([](const Tensor& loss) { return at::full_like(loss, kScale); });
    recipe.gradients.wrap(Phase::precision, [](auto inner) {
      return [inner](Gradients& gradients, Update& update) {
        inner(gradients, update);
        for (Tensor& gradient : gradients.tensors()) gradient.div_(kScale);
      };
    });
  });
  EXPECT_EQ(scaled, norms({}));
}

TEST(Training, AccumulationEqualsOneLargeMicroBatchInDouble) {
  RunSpec whole = nano_spec();
  whole.train.dtype = "fp64";
  RunSpec parts = nano_spec({{"gradient_accumulation", {{"steps", 4}}}});
  parts.train.dtype = "fp64";
  parts.train.micro_batch = 1;
  const auto expected = losses(Trained(whole).train()), got = losses(Trained(parts).train());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12);
}

TEST(Training, AGlobalBatchThatContradictsItsFactorsIsAnError) {
  RunSpec spec = nano_spec({{"gradient_accumulation", {{"steps", 2}}}});
  spec.train.global_batch = 4;
  EXPECT_NE(
      error_of([&] { Trained(spec).train(); }).find("global_batch is 4, but micro_batch 4 x accumulation 2"),
      std::string::npos);
}

TEST(Training, ThePlainOptimizerAndTheFusedOneAgreeInDouble) {
  RunSpec plain = nano_spec(), fused = nano_spec({{"fused_adamw", Json::object()}});
  plain.train.dtype = fused.train.dtype = "fp64";
  plain.train.steps = fused.train.steps = 6;
  const auto expected = losses(Trained(plain).train()), got = losses(Trained(fused).train());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], 1e-7);  // lr is stored in fp32
}

TEST(Operators, AttentionIsSoftmaxOfScoresInDouble) {
  const auto options = at::TensorOptions(at::kDouble);
  const Tensor q = at::randn({2, 4, 5, 8}, options), k = at::randn({2, 2, 5, 8}, options),
               v = at::randn({2, 2, 5, 8}, options);
  const AttentionOut got = plain::attention(q, k, v, {.scale = 0.25, .lse = true});
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t h = 0; h < 4; ++h)
      for (int64_t s = 0; s < 5; ++s) {
        const Tensor keys = k[b][h / 2].slice(0, 0, s + 1), values = v[b][h / 2].slice(0, 0, s + 1);
        const Tensor scores = at::mv(keys, q[b][h][s]) * 0.25;
        const Tensor expected = at::mv(values.t(), at::softmax(scores, 0));
        EXPECT_TRUE(at::allclose(got.out[b][h][s], expected, 1e-12, 1e-12));
        EXPECT_TRUE(at::allclose(got.lse[b][h][s], at::logsumexp(scores, 0), 1e-12, 1e-12));
      }
}

/// A custom derivative and an adapter work in one block: SwiGLU as a pair under LoRA.
TEST(Differentiable, APairAndLoraInOneBlockEqualThePlainForm) {
  const Differentiable swiglu{{.name = "swiglu",
                               .forward = [](const Tensors& in) -> Differentiable::Result {
                                 return {{at::silu(in[0]) * in[1]}, {in[0], in[1]}};
                               },
                               .backward = [](const Tensors& saved, const Tensors& gradients) -> Tensors {
                                 const Tensor sigmoid = at::sigmoid(saved[0]);
                                 const Tensor slope = sigmoid * (1 + saved[0] * (1 - sigmoid));
                                 return {gradients[0] * saved[1] * slope, gradients[0] * saved[0] * sigmoid};
                               }}};
  RunSpec spec = nano_spec({{"lora", {{"rank", 4}, {"target_modules", {"gate_proj", "down_proj"}}}}});
  spec.train.dtype = "fp64";
  const auto expected = losses(Trained(spec).train());
  int calls = 0;
  const auto got = losses(Trained(spec, [&](Recipe& recipe) {
                            recipe.ops.swiglu.replace(
                                [&](const Tensor& gate, const Tensor& up) {
                                  ++calls;
                                  return call(swiglu, {gate, up}).at(0);
                                },
                                swiglu->traits);
                          }).train());
  EXPECT_EQ(calls, 2 * 3);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12);
}

TEST(Differentiable, AWrongNumberOfGradientsNamesTheOperator) {
  const Differentiable bad{{.name = "halfway",
                            .forward = [](const Tensors& in) -> Differentiable::Result {
                              return {{in[0] * in[1]}, {}};
                            },
                            .backward = [](const Tensors&, const Tensors& g) -> Tensors { return {g[0]}; }}};
  const Tensor x = at::randn({2}).requires_grad_();
  EXPECT_NE(error_of([&] {
              call(bad, {x, x}).at(0).sum().backward();
            }).find("operator 'halfway' returned 1 gradients"),
            std::string::npos);
}
}  // namespace
}  // namespace optrush::testing
