// The loss on held-out data: its sequences, no effect on training, and plugins.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iostream>
#include <set>

#include "base/temporary_folder.h"
#include "data/batches.h"
#include "data/token_source.h"
#include "measure/memory.h"
#include "optrush/error.h"
#include "optrush/scopes.h"
#include "recipe/evaluation_scope.h"
#include "support/error_of.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
RunSpec validating_spec(std::vector<PluginUse> plugins = {}) {
  at::set_num_threads(1);  // the runs are tiny, and the machine may be busy
  RunSpec spec = nano_spec(std::move(plugins));
  spec.train.steps = 5;
  spec.validate.every = 2;
  spec.validate.sequences = 6;  // with micro-batches of 4, one batch has padding rows
  return spec;
}

RunSpec training_only(RunSpec spec) {
  spec.validate.every = 0;
  return spec;
}

std::vector<double> norms_of(const Json& result) {
  std::vector<double> values;
  for (const auto& step : result["steps"])
    values.push_back(step["grad_norm"].is_null() ? -1 : step["grad_norm"].get<double>());
  return values;
}

TEST(Validation, RunsEveryNStepsAndAfterTheLast) {
  const Json points = Trained(validating_spec()).train().at("validation");
  std::vector<int64_t> steps;
  for (const Json& point : points) {
    steps.push_back(point.at("step"));
    EXPECT_NEAR(point.at("loss"), std::log(64), 0.3);  // random tokens cannot be learned
    EXPECT_GT(point.at("seconds"), 0);
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{2, 4, 6}));
}

TEST(Validation, RunsOfTheGateHaveNoValidation) {
  RunSpec spec = validating_spec();
  spec.purpose = Purpose::probe;
  EXPECT_FALSE(Trained(spec).train().contains("validation"));
}

/// Every shipped technique that one CPU can train with.
std::vector<std::vector<PluginUse>> stacks() {
  const Json none = Json::object();
  return {{},
          {{"activation_checkpointing", none}},
          {{"activation_checkpointing", {{"policy", "selective"}}}},
          {{"activation_checkpointing", {{"policy", "budget"}}}},
          {{"activation_checkpointing", {{"policy", "offload"}}}},
          {{"bf16_weights", none}},
          {{"clip_grad_norm", none}},
          {{"cpu_allocator", none}},
          {{"onednn_matmul", {{"processors", "all"}}}},
          {{"flash_attention", none}},
          {{"fsdp", none}},
          {{"fsdp", {{"stage", 1}}}},
          {{"fsdp", {{"stage", 2}}}},
          {{"fused_adamw", none}},
          {{"fused_kernels", none}},
          {{"fused_linear_cross_entropy", none}},
          {{"fused_projections", none}},
          {{"gradient_accumulation", {{"steps", 3}}}},
          {{"lora", {{"rank", 4}, {"dropout", 0.3}}}},
          {{"lora", {{"rank", 4}, {"dropout", 0.3}}}, {"activation_checkpointing", none}},
          {{"mixed_precision", none}},
          {{"mixed_precision", {{"dtype", "fp16"}}}},
          {{"swiglu_recompute", none}},
          {{"fsdp", none}, {"mixed_precision", none}, {"fused_linear_cross_entropy", none}}};
}

TEST(Validation, TrainingIsBitEqualWithAndWithoutIt) {
  for (const auto& plugins : stacks()) {
    std::string name = "plain";
    for (const auto& use : plugins) name += " " + use.name + use.options.dump();
    SCOPED_TRACE(name);
    Json with;
    try {
      with = Trained(validating_spec(plugins)).train();
    } catch (const Skip& e) {
      EXPECT_EQ(e.code(), ErrorCode::missing_requirement) << e.what();
      std::cout << name << ": not compared, because this machine cannot run it\n";
      continue;
    }
    const Json without = Trained(training_only(validating_spec(plugins))).train();
    EXPECT_EQ(losses(with), losses(without));
    EXPECT_EQ(norms_of(with), norms_of(without));
    EXPECT_EQ(with.at("flops_per_token"), without.at("flops_per_token"));
    EXPECT_EQ(with.at("validation").size(), 3U);
  }
}

TEST(Validation, LeavesNoMemoryAndDoesNotRaiseThePeakOfSteps) {
  install_cpu_memory_tracking();
  const auto peak = [](const RunSpec& spec) {
    const int64_t before = cpu_allocated();
    Trained trained(spec);
    const int64_t of_steps = trained.train()["memory"]["peak_allocated"].get<int64_t>() - before;
    return std::pair(of_steps, cpu_allocated() - before);
  };
  for (const auto& plugins : std::vector<std::vector<PluginUse>>{
           {}, {{"mixed_precision", Json::object()}}, {{"fsdp", {{"stage", 1}}}}}) {
    RunSpec spec = validating_spec(plugins);
    spec.validate.sequences = 400;
    EXPECT_EQ(peak(spec), peak(training_only(spec))) << (plugins.empty() ? "plain" : plugins[0].name);
  }
}

TEST(Validation, DoesNotDependOnTheMicroBatch) {
  const auto last = [](int64_t micro_batch, int64_t accumulation) {
    RunSpec spec = validating_spec();
    spec.train.dtype = "fp64";
    spec.train.micro_batch = micro_batch;
    spec.train.accumulation = accumulation;
    return Trained(spec).train().at("validation").back().at("loss").get<double>();
  };
  const double whole = last(12, 1);
  EXPECT_NEAR(last(4, 3), whole, 1e-12);
  EXPECT_NEAR(last(1, 12), whole, 1e-12);
}

TEST(Validation, DropoutIsOff) {
  // With a dropout of 0.9, each forward in training gives another loss.
  RunSpec spec = validating_spec({{"lora", {{"rank", 4}, {"dropout", 0.9}}}});
  Trained trained(spec);
  trained.train();
  Session& session = trained.session();
  const Batches batches(spec, session.model(), session.mesh(), at::kCPU);
  const auto loss = [&] {
    auto batch = batches.validation().front();
    session.prepare(batch);
    return session.forward(0, batch, {}, /*seeded=*/false).item<double>();
  };
  {
    const EvaluationScope evaluation;
    EXPECT_EQ(loss(), loss());
  }
  EXPECT_NE(loss(), loss());
}

TEST(Validation, TextAndTokensHoldOutTheirEnd) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 10; ++i) text += std::string(17, static_cast<char>('a' + i));  // sequences of 16 + 1
  std::ofstream(folder / "text.txt") << text;
  RunSpec spec = nano_spec();
  spec.data = {.kind = "text", .path = folder / "text.txt", .extensions = {}};
  spec.validate.every = 1;
  spec.validate.sequences = 3;
  const auto letters = [](const TokenSource& source, int64_t count) {
    std::set<char> seen;
    std::vector<int64_t> tokens(17);
    for (int64_t i = 0; i < count; ++i) {
      source.sample(i, tokens);
      for (const int64_t token : tokens) seen.insert(static_cast<char>(token));
    }
    return std::string(seen.begin(), seen.end());
  };
  EXPECT_EQ(letters(*open_validation(spec, 256), 3), "hij");
  EXPECT_EQ(letters(*open_training(spec, 256), 70), "abcdefg");  // ten epochs
  spec.validate.sequences = 10;
  EXPECT_NE(error_of([&] { open_training(spec, 256); }).find("validate holds out 10"), std::string::npos);
  spec.validate.every = 0;
  EXPECT_EQ(letters(*open_training(spec, 256), 100), "abcdefghij");
}

TEST(Validation, OwnDataDoNotChangeTraining) {
  const TemporaryFolder folder;
  std::ofstream(folder / "other.txt") << std::string(200, 'x');
  RunSpec spec = nano_spec();
  spec.model["vocab_size"] = 256;
  spec.train.steps = 3;
  const Json alone = Trained(spec).train();
  spec.validate = {
      .every = 2, .sequences = 4, .data = {.kind = "text", .path = folder / "other.txt", .extensions = {}}};
  const Json validated = Trained(spec).train();
  EXPECT_EQ(losses(validated), losses(alone));
  EXPECT_EQ(validated.at("validation").size(), 2U);
}

TEST(Validation, UnsupportedPluginsAreRefusedByName) {
  const auto refusal = [](const std::function<void(Recipe&)>& edit) {
    return error_of([&] { Trained(validating_spec(), edit); });
  };
  EXPECT_NE(refusal([](Recipe& recipe) {
              recipe.data.replace([](int64_t) { return std::vector<Batch>(); });
            }).find("plugin 'test' provides the training data"),
            std::string::npos);
  EXPECT_NE(refusal([](Recipe& recipe) {
              recipe.stages.replace([](optrush::Run&) { return std::vector<std::vector<Unit*>>(); });
            }).find("plugin 'test' splits the model into stages"),
            std::string::npos);
}

TEST(Validation, WrapsOfTheDataGetHeldOutBatches) {
  int64_t evaluated = 0, trained = 0;
  const Json result = Trained(validating_spec(), [&](Recipe& recipe) {
                        recipe.data.wrap(Phase::prefetch, [&](auto inner) {
                          return [&, inner](int64_t step) {
                            ++(evaluating() ? evaluated : trained);
                            return inner(step);
                          };
                        });
                      }).train();
  EXPECT_EQ(evaluated, 3);
  EXPECT_EQ(trained, 6);
}
}  // namespace
}  // namespace optrush::testing
