// Measured training: exact bytes, exact FLOPs, and the checks that refuse a run in which nothing trains.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "io/state_folder.h"
#include "measure/flops.h"
#include "measure/memory.h"
#include "measure/saved_tensors.h"
#include "model/operators.h"
#include "params/init.h"
#include "support/error_of.h"
#include "support/training.h"
#include "train/run_end.h"
#include "train/state.h"

namespace optrush::testing {
namespace {
/// Matmul parameters of nano_spec: per block q 32x32, k and v 16x32, o 32x32, three of the MLP 48x32; head
/// 64x32.
constexpr double kMatmulParameters = 2 * (32 * 32 + 2 * 16 * 32 + 32 * 32 + 3 * 48 * 32) + 64 * 32;

TEST(InitialValue, IsDrawnByManyThreadsAndDependsOnNone) {
  const int64_t block = int64_t{1} << 20;
  Param param{.name = "w", .shape = {3, block + 7}, .init = normal(0.02)};
  const int threads = at::get_num_threads();
  const auto drawn_by = [&](int count) {
    at::set_num_threads(count);
    return initial_value(param, /*seed=*/5);
  };
  const Tensor one = drawn_by(1), three = drawn_by(3);
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(one, three));
  EXPECT_EQ(one.sizes(), at::IntArrayRef({3, block + 7}));
  const Tensor flat = one.view(-1);
  for (int64_t i = 0; i < 2; ++i) {
    const Tensor part = flat.slice(0, i * block, (i + 1) * block);
    EXPECT_NEAR(part.mean().item<double>(), 0, 1e-4) << "block " << i;
    EXPECT_NEAR(part.std().item<double>(), 0.02, 1e-4) << "block " << i;
    EXPECT_FALSE(at::equal(part, flat.slice(0, (i + 1) * block, (i + 2) * block)))
        << "a stream for each block";
  }
  EXPECT_FALSE(at::equal(one, initial_value(param, /*seed=*/6)));
  param.name = "v";
  EXPECT_FALSE(at::equal(one, initial_value(param, /*seed=*/5)));
}

TEST(InitialValue, UniformIsBoundedByTheNumberOfInputs) {
  const Tensor drawn =
      initial_value({.name = "a", .shape = {4, 400}, .init = uniform_by_fan_in()}, /*seed=*/5);
  const double largest = drawn.abs().max().item<double>();
  EXPECT_LE(largest, 1.0 / 20);
  EXPECT_GT(largest, 0.95 / 20);
}

TEST(CpuMemory, CountsWhatTensorsAskFor) {
  install_cpu_memory_tracking();
  const int64_t before = cpu_allocated();
  reset_memory_peak(at::kCPU);
  {
    const Tensor a = at::empty({1000}, at::kFloat);
    EXPECT_EQ(cpu_allocated() - before, 4000);
    { const Tensor b = at::empty({7}, at::kByte); }
    EXPECT_EQ(cpu_allocated() - before, 4000);
  }
  EXPECT_EQ(cpu_allocated(), before);
  EXPECT_EQ(memory_peak(at::kCPU).allocated - before, 4007);
  EXPECT_FALSE(memory_peak(at::kCPU).reserved.has_value());
}

TEST(CpuMemory, TwoRunsOfOneSpecPeakAtTheSameByte) {
  install_cpu_memory_tracking();
  const auto peak = [] {
    const int64_t before = cpu_allocated();
    return Trained(nano_spec()).train()["memory"]["peak_allocated"].get<int64_t>() - before;
  };
  const int64_t first = peak();
  EXPECT_GT(first, 0);
  EXPECT_EQ(peak(), first);
}

TEST(SavedTensors, CountsEachStorageOnceAndNotTheParameters) {
  const Tensor weight = at::randn({8, 8}).requires_grad_();
  const Tensor x = at::randn({4, 8}).requires_grad_();
  SavedTensorCount count({weight});
  const Tensor y = at::matmul(x, weight);  // keeps x (128 bytes) and weight (resident)
  const Tensor z = y.exp();                // keeps its own result
  const Tensor w = z * z;                  // keeps z, which is counted already
  count.stop();
  EXPECT_EQ(count.peak_bytes(), 4 * 8 * 4 + 4 * 8 * 4);
}

TEST(SavedTensors, AnOuterScopeSeesWhatAnInnerOneKeeps) {
  const Tensor x = at::randn({4, 8}).requires_grad_();
  const SavedTensorScope narrow([](const Tensor& tensor) -> PackedTensor {
    return {tensor.to(at::kBFloat16), [](const Tensor& kept) { return kept.to(at::kFloat); }};
  });
  SavedTensorCount count({});
  Tensor y;
  {
    const SavedTensorScope part([](const Tensor& tensor) -> PackedTensor {
      return {tensor.slice(0, 0, 1).clone(), [](const Tensor& kept) { return kept.expand({4, 8}); }};
    });
    y = x.exp();  // keeps its result: one row of four, in two bytes
  }
  EXPECT_EQ(count.peak_bytes(), 8 * 2);
  y.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), y.slice(0, 0, 1).to(at::kBFloat16).to(at::kFloat).expand({4, 8})));
}

TEST(SavedTensors, GradientsAreTheSameUnderTheCount) {
  const Tensor x = at::randn({4, 8}, at::kDouble).requires_grad_();
  const Tensor expected = (x.exp() * x.sin()).sum();
  expected.backward();
  const Tensor gradient = x.grad().clone();
  x.mutable_grad().reset();
  SavedTensorCount count({});
  (x.exp() * x.sin()).sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), gradient));
}

TEST(Flops, FormulasAndWhatRuns) {
  const Json result = Trained(nano_spec()).train();
  const auto& flops = result["flops_per_token"];
  const double attention = 12.0 * 2 * 16 * 32;  // 12 L S (heads head_dim)
  EXPECT_DOUBLE_EQ(flops["mfu"], 6 * kMatmulParameters + attention);
  EXPECT_DOUBLE_EQ(flops["mfu_causal"], 6 * kMatmulParameters + attention / 2);
  EXPECT_DOUBLE_EQ(flops["hfu"], flops["mfu"].get<double>());
}

TEST(Flops, AFusedCausalKernelRunsHalf) {
  const Json result = Trained(nano_spec({{"flash_attention", Json::object()}})).train();
  const double attention = 12.0 * 2 * 16 * 32;
  // Of six matmuls two forward, and five backward: it makes the scores again. Half of each.
  EXPECT_DOUBLE_EQ(result["flops_per_token"]["hfu"], 6 * kMatmulParameters + attention * 3.5 / 6);
}

TEST(Flops, RecomputationShowsInHfuOnly) {
  const Json result = Trained(nano_spec({{"activation_checkpointing", Json::object()}})).train();
  const auto& flops = result["flops_per_token"];
  const double blocks =
      2 * (kMatmulParameters - 64 * 32) + 4.0 * 2 * 16 * 32;  // one more forward of both blocks
  EXPECT_DOUBLE_EQ(flops["hfu"].get<double>() - flops["mfu"].get<double>(), blocks);
}

TEST(Flops, FrozenLinearsCountFourAndAdaptersSix) {
  const Json result = Trained(nano_spec({{"lora", {{"rank", 4}}}})).train();
  const double adapters = 2 * (4 * (32 + 32) + 4 * (32 + 16));
  EXPECT_DOUBLE_EQ(result["flops_per_token"]["mfu"],
                   4 * kMatmulParameters + 6 * adapters + 12.0 * 2 * 16 * 32);
}

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

TEST(Training, ParametersThatStayFail) {
  RunSpec spec = nano_spec();
  spec.train.lr = 0;
  EXPECT_NE(error_of([&] { Trained(spec).train(); }).find("no parameter changed"), std::string::npos);
}

/// The warnings of a run that leaves so many bytes behind in the timed step `i`.
std::vector<std::string> warnings_of_leaving(int64_t steps, const std::function<int64_t(int64_t)>& bytes) {
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
    const auto found = warnings_of_leaving(steps, [](int64_t) { return 24; });
    ASSERT_EQ(found.size(), 1U) << steps;
    EXPECT_NE(found.front().find("in the host's memory grow by 24 bytes per step"), std::string::npos);
  }
  const auto third = warnings_of_leaving(12, [](int64_t i) { return i % 3 == 0 ? 30 : 0; });
  ASSERT_EQ(third.size(), 1U) << "every third step leaves something";
  for (const int64_t steps : {5, 12}) {
    EXPECT_TRUE(warnings_of_leaving(steps, [](int64_t) { return 0; }).empty());
    EXPECT_TRUE(warnings_of_leaving(steps, [](int64_t i) { return i == 4 ? 4096 : 0; }).empty())
        << "a cache that fills late";
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

TEST(Training, UpdatesThatFewBitsCannotHoldAreAWarning) {
  const auto lost = warnings_of_training("bf16", 1e-6);
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_NE(lost.front().find("0 % of the elements of vectors (norms, biases) and "), std::string::npos);
  EXPECT_NE(lost.front().find("of the elements of matrices (mean of 8 updates)"), std::string::npos);
  EXPECT_NE(lost.front().find("fp32 master weights"), std::string::npos);
  EXPECT_TRUE(warnings_of_training("bf16", 1e-2).empty());
  EXPECT_TRUE(warnings_of_training("fp32", 1e-6).empty());
  EXPECT_TRUE(warnings_of_training("fp32", 1e-6, {{"bf16_weights", Json::object()}}).empty())
      << "masters hold what weights do not";
}

/// An optimizer that lists what `listed` makes of the plain one's list.
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
      recipe.optimizer.wrap(Phase::optimizer, [&](auto inner, const Module&) -> decltype(inner) {
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

TEST(Overfit, EveryStepTrainsOnTheFirstBatch) {
  RunSpec spec = nano_spec();
  spec.train.steps = 4;
  const RunSpec usual = spec;
  spec.train.overfit = 0.1;
  Trained trained(spec), other(usual);
  const auto batches = [](Trained& run) {
    return Batches(run.session().spec(), run.session().model(), run.session().mesh(), at::kCPU);
  };
  const Batches same = batches(trained), moving = batches(other);
  const auto tokens = [](const Batches& all, int64_t step) { return all.step(step).front().tokens; };
  EXPECT_TRUE(at::equal(tokens(same, 0), tokens(moving, 0)));
  EXPECT_TRUE(at::equal(tokens(same, 5), tokens(moving, 0)));
  EXPECT_FALSE(at::equal(tokens(moving, 5), tokens(moving, 0)));
  const auto alone = losses(trained.train()), varied = losses(other.train());
  EXPECT_EQ(alone.front(), varied.front());
  EXPECT_NE(alone.back(), varied.back());
  for (size_t step = 1; step < alone.size(); ++step) EXPECT_LT(alone[step], alone[step - 1]);
}

TEST(Overfit, HasNoEpochs) {
  EXPECT_NE(error_of([] {
              train_from_json({{"overfit", 0.1}, {"epochs", 2}}, "x.lua:3");
            }).find("epochs"),
            std::string::npos);
}

std::vector<ValidationPoint> validations(const std::vector<double>& losses) {
  std::vector<ValidationPoint> list;
  for (const double loss : losses) list.push_back({.step = 10 * (std::ssize(list) + 1), .loss = loss});
  return list;
}

TEST(RunEnd, FollowsFromTheValidationsThatThereAre) {
  RunSpec spec = nano_spec();
  spec.validate.every = 10;
  spec.validate.patience = 2;
  const RunEnd end(spec, 0, 4);
  EXPECT_EQ(RunEnd::best(validations({})), std::nullopt);
  EXPECT_EQ(RunEnd::best(validations({3, 1, 2, 1})), 1U) << "the first of equal ones";
  EXPECT_TRUE(RunEnd::improved(validations({3, 2})));
  EXPECT_FALSE(RunEnd::improved(validations({3, 3})));
  EXPECT_FALSE(end.is_over(validations({3, 1, 2})));
  EXPECT_TRUE(end.is_over(validations({3, 1, 2, 1})));
  spec.validate.patience = 0;
  EXPECT_FALSE(RunEnd(spec, 0, 4).is_over(validations({1, 2, 3, 4})));
}

TEST(RunEnd, EpochsAreWholeStepsAndNoMoreThanTheStepsAskedFor) {
  RunSpec spec = nano_spec();
  spec.train.warmup = 3;
  spec.train.steps = 100;
  spec.train.epochs = 2;
  EXPECT_EQ(RunEnd(spec, 21, 4).steps(), 11) << "42 sequences in steps of 4";
  EXPECT_EQ(RunEnd(spec, 21, 4).why_shorter(), "2 epochs were complete after 11 steps");
  EXPECT_EQ(RunEnd(spec, 2100, 4).steps(), 103);
  EXPECT_EQ(RunEnd(spec, 2100, 4).why_shorter(), "");
  EXPECT_NE(error_of([&] { RunEnd(spec, 5, 4); }).find("2 epochs of 5 sequences gives 3 steps of 4"),
            std::string::npos);
}

/// Trains on text that repeats itself.
RunSpec text_spec(const TemporaryFolder& folder, const std::string& text, int64_t times) {
  std::string all;
  for (int64_t i = 0; i < times; ++i) all += text;
  write_file(folder / "text.txt", all);
  RunSpec spec = nano_spec();
  spec.model["vocab_size"] = 256;
  spec.data = {.kind = "text", .path = folder / "text.txt", .extensions = {}};
  return spec;
}

TEST(Training, EndsWithItsEpochs) {
  const TemporaryFolder folder;
  RunSpec spec = text_spec(folder, "abcd", 200);  // 47 sequences of 17
  spec.train.steps = 1000;
  spec.train.epochs = 1;
  Trained trained(spec);
  EXPECT_EQ(trained.train()["steps"].size(), 12U);
  EXPECT_EQ(trained.session().log().notes(), std::vector<std::string>{"1 epoch was complete after 12 steps"});
}

TEST(Training, EndsWhereTheValidationLossFallsNoMoreAndKeepsTheBest) {
  const TemporaryFolder folder;
  RunSpec spec = text_spec(folder, "what is learned here is of no use there; ", 40);
  write_file(folder / "other.txt", std::string(400, 'z'));
  spec.validate = {.every = 2, .sequences = 4};
  spec.validate.data = {.kind = "text", .path = folder / "other.txt", .extensions = {}};
  spec.validate.patience = 3;
  spec.validate.keep_best = true;
  spec.train.steps = 200;
  spec.train.lr = 3e-2;
  Trained trained(spec);
  const RunResult result = optrush::train(trained.session(), [](const Json&) {}, nullptr,
                                          {.trace = {}, .state = folder / "state"});
  const auto& made = result.validation;
  const size_t best = *RunEnd::best(made);
  ASSERT_LT(result.steps.size(), 200U);
  EXPECT_EQ(made.size(), best + 4) << "three came after the best one";
  EXPECT_EQ(std::ssize(result.steps), made.back().step);
  ASSERT_TRUE(result.best);
  EXPECT_EQ(result.best->step, made[best].step);
  EXPECT_EQ(result.best->loss, made[best].loss);
  const StateFolder kept(folder / "best");
  EXPECT_EQ(kept.step(), made[best].step);
  EXPECT_NE(trained.session().log().notes().back().find("no validation loss was below that of step"),
            std::string::npos);
  // It is the model of that loss.
  spec.train.lr = 1e-12;
  spec.train.warmup = 0;
  spec.train.steps = 1;
  spec.validate.patience = 0;
  spec.validate.keep_best = false;
  Trained again(spec);
  load_state(again.session(), [&](const std::string& key) { return kept.read(key); });
  EXPECT_NEAR(again.train()["validation"][0]["loss"].get<double>(), result.best->loss, 1e-5);
}

TEST(Training, SamplesWhatTheModelHasLearned) {
  const TemporaryFolder folder;
  RunSpec spec = text_spec(folder, "abcdefgh", 200);
  spec.train.steps = 60;
  spec.sample = {.prompts = {"abcd", "fgh", "cdefghabcdefghab"}, .tokens = 20};
  // Before the first step: nothing that was trained is lost.
  const auto refusal_of = [&](const RunSpec& asked) {
    Trained refused(asked);
    int64_t steps = 0;
    const std::string message = error_of([&] {
      train(refused.session(), [&](const Json& line) { steps += line.value("event", "") == "step" ? 1 : 0; });
    });
    EXPECT_EQ(steps, 0);
    return message;
  };
  EXPECT_NE(refusal_of(spec).find("the prompt 'cdefghabcdefghab' has 16 tokens"), std::string::npos);
  RunSpec small = spec;
  small.data = {};
  small.model["vocab_size"] = 100;
  EXPECT_NE(refusal_of(small).find("its 100 tokens are not bytes"), std::string::npos);
  spec.sample.prompts.pop_back();
  const Json sample = Trained(spec).train()["sample"];
  EXPECT_EQ(sample, (Json{{{"prompt", "abcd"}, {"text", "efghabcdefgh"}},
                          {{"prompt", "fgh"}, {"text", "abcdefghabcde"}}}))
      << "up to the sequence's length of 16";
}

TEST(Training, AZeroGradientFails) {
  const auto message = error_of([] {
    Trained(nano_spec(), [](Recipe& recipe) {
      // The loss is as it was, and what goes back from it is zero.
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

TEST(Training, TheGradientNormIsOfTheLossWhateverTheBackwardStartsFrom) {
  const auto norms = [](const std::function<void(Recipe&)>& edit) {
    std::vector<double> values;
    const Json result = Trained(nano_spec(), edit).train();
    for (const auto& step : result["steps"]) values.push_back(step["grad_norm"]);
    EXPECT_FALSE(values.empty());
    return values;
  };
  const auto scaled = norms([](Recipe& recipe) {
    constexpr double kScale = 1024;  // a power of two: no bit of a gradient changes
    recipe.loss_gradient.replace([](const Tensor& loss) { return at::full_like(loss, kScale); });
    recipe.gradients.wrap(Phase::precision, [](auto inner, const Module&) -> decltype(inner) {
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
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-7);  // lr travels in fp32
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

/// Proof that a custom derivative and an adapter live in one block: SwiGLU as a pair under LoRA.
TEST(Differentiable, APairAndLoraInOneBlockEqualThePlainForm) {
  const Differentiable swiglu{.name = "swiglu",
                              .forward = [](const Tensors& in) -> Differentiable::Result {
                                return {{at::silu(in[0]) * in[1]}, {in[0], in[1]}};
                              },
                              .backward = [](const Tensors& saved, const Tensors& gradients) -> Tensors {
                                const Tensor sigmoid = at::sigmoid(saved[0]);
                                const Tensor slope = sigmoid * (1 + saved[0] * (1 - sigmoid));
                                return {gradients[0] * saved[1] * slope, gradients[0] * saved[0] * sigmoid};
                              }};
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
                                swiglu.traits);
                          }).train());
  EXPECT_EQ(calls, 2 * 3);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12);
}

TEST(Differentiable, AWrongNumberOfGradientsNamesTheOperator) {
  const Differentiable bad{.name = "halfway",
                           .forward = [](const Tensors& in) -> Differentiable::Result {
                             return {{in[0] * in[1]}, {}};
                           },
                           .backward = [](const Tensors&, const Tensors& g) -> Tensors { return {g[0]}; }};
  const Tensor x = at::randn({2}).requires_grad_();
  EXPECT_NE(error_of([&] {
              call(bad, {x, x}).at(0).sum().backward();
            }).find("operator 'halfway' returned 1 gradients"),
            std::string::npos);
}
}  // namespace
}  // namespace optrush::testing
