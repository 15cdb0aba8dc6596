// CUDA graphs on a CPU. Plugins that cannot be recorded are refused by name before anything runs, and batches
// are copied to the recorded step's tensors. tests/gpu has the other tests.
#include "cuda_graphs/static_batches.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "optrush/step.h"
#include "plugin_check/opening.h"
#include "plugin_check/run_case.h"
#include "plugin_check/small_data.h"
#include "support/error_of.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
RunSpec spec_with(std::vector<PluginUse> stack) {
  stack.push_back({"cuda_graphs", Json::object()});
  RunSpec spec = nano_spec(std::move(stack));
  spec.train.warmup = 3;
  return spec;
}
std::string refusal(std::vector<PluginUse> stack) {
  return error_of([&] { Trained{spec_with(std::move(stack))}; });
}

TEST(CudaGraphs, OperationsThatMayWaitForTheHostAreRefusedByName) {
  EXPECT_NE(refusal({}).find("a CUDA graph cannot record operations that wait for the host or differ from "
                             "step to step: the plain optimizer"),
            std::string::npos);
  EXPECT_NE(refusal({{"fused_adamw", Json::object()}, {"activation_checkpointing", Json::object()}})
                .find("from step to step: 'activation_checkpointing' in unit"),
            std::string::npos);
  const auto message = error_of([] {
    Trained(spec_with({{"fused_adamw", Json::object()}}), [](Recipe& recipe) {
      recipe.ops.norm.replace([](const Tensor& x, const NormArgs&) { return x; });
      recipe.schedule.wrap(Phase::gradients, [](auto inner) { return inner; });
    });
  });
  EXPECT_NE(message.find("'test' in norm, 'test' in schedule"), std::string::npos) << message;
}

TEST(CudaGraphs, RecomputedMlpIsRefused) {
  const auto with_level = [](int level) {
    return std::vector<PluginUse>{{"fused_adamw", Json::object()}, {"swiglu_recompute", {{"level", level}}}};
  };
  EXPECT_NE(refusal(with_level(1)).find("from step to step: 'swiglu_recompute' in mlp"), std::string::npos);
  EXPECT_THROW(Trained{spec_with(with_level(0))}, Skip);
}

TEST(CudaGraphs, CapturableStacksRequireAGpu) {
  const std::vector<PluginUse> stack = {
      {"clip_grad_norm", Json::object()},       {"flash_attention", Json::object()},
      {"fused_adamw", Json::object()},          {"gradient_accumulation", {{"steps", 2}}},
      {"mixed_precision", {{"dtype", "fp16"}}}, {"lora", Json::object()}};
  EXPECT_THROW(Trained{spec_with(stack)}, Skip);
  // Outer wrappers of the schedule run outside of the graph.
  EXPECT_THROW(
      Trained(spec_with(stack),
              [](Recipe& recipe) { recipe.schedule.wrap(Phase::measure, [](auto inner) { return inner; }); }),
      Skip);
}

TEST(CudaGraphs, PackedDocumentsAndPairsOfAnswersAreRefusedByName) {
  const TemporaryFolder folder;
  write_small_data(folder.path());
  const CheckContext context{at::kCPU, Catalogue::find(spec_with({}).plugin_path)};
  StackCheck stacks(context);
  for (const auto& [other, kind] : {std::pair("dpo", "preferences"), {"packing", "documents"}}) {
    CheckCase pair{.id = other,
                   .kind = CheckKind::pair,
                   .subjects = {"cuda_graphs", other},
                   .spec = spec_with({{"fused_adamw"}, {other}})};
    pair.spec.data = small_data(kind);
    pair.spec.data.path = (folder / pair.spec.data.path).string();
    const CaseEnd result = run_case(pair, context, stacks);
    EXPECT_EQ(result.status, CaseStatus::refused) << result.detail;
    EXPECT_EQ(result.code, ErrorCode::conflict);
    EXPECT_NE(result.detail.find("plugins 'cuda_graphs' and '" + std::string(other) + "' conflict"),
              std::string::npos)
        << result.detail;
  }
}

TEST(CudaGraphs, WarmupStepsAreRequiredBeforeRecording) {
  RunSpec spec = spec_with({{"fused_adamw", Json::object()}});
  spec.train.warmup = 2;
  EXPECT_NE(error_of([&] { Trained{spec}; }).find("train.warmup is 2"), std::string::npos);
}

/// Each plugin of a pair runs without the other: cuda_graphs on a dense model, the other on a model with
/// experts.
TEST(CudaGraphs, PairWithAModelOfTheOtherPluginIsRefusedNotBroken) {
  CheckCase c{.id = "pair", .kind = CheckKind::pair, .subjects = {"cuda_graphs", "router_losses"}};
  c.spec = spec_with({{"router_losses", {{"balance", 0.05}}}, {"fused_adamw", Json::object()}});
  c.spec.model.update({{"n_experts", 3}, {"experts_per_token", 2}});
  EXPECT_THROW(open_case(c, c.spec, {at::kCPU, Catalogue::find(c.spec.plugin_path)}), Refused);
}

/// A step with given batches that computes nothing.
class FakeStep final : public Step {
 public:
  explicit FakeStep(std::vector<Batch> batches) : batches_(std::move(batches)) {}
  int64_t microbatches() const override { return static_cast<int64_t>(batches_.size()); }
  const Batch& batch(int64_t micro) const override { return batches_.at(static_cast<size_t>(micro)); }
  Tensor forward(int64_t, int64_t, Tensor in) override { return in; }
  Tensor backward(int64_t, int64_t, const Tensor&, const Tensor&, bool) override { return {}; }
  void update() override {}
  void time_as_one() override {}
  void add_uncounted_memory(int64_t) override {}
  const StepOutcome& outcome() const override { return outcome_; }
  void set_outcome(StepOutcome outcome) override { outcome_ = std::move(outcome); }

 private:
  std::vector<Batch> batches_;
  StepOutcome outcome_;
};

Batch batch_of(int64_t value, int64_t rows = 2, double count = 6) {
  Batch batch;
  batch.tokens = at::full({rows, 3}, value, at::kLong);
  batch.labels = at::full({rows, 3}, value + 1, at::kLong);
  batch.positions = (at::arange(3) + value).expand({rows, 3});
  batch.token_count = count;
  return batch;
}

TEST(StaticBatches, EachStepIsCopiedIntoTheRecordedTensors) {
  const FakeStep recorded({batch_of(1), batch_of(2)});
  const cuda_graphs::StaticBatches batches(recorded);
  const auto* address = recorded.batch(1).tokens.const_data_ptr();
  const FakeStep fresh({batch_of(10), batch_of(20)});
  batches.copy_from(fresh);
  EXPECT_EQ(recorded.batch(1).tokens.const_data_ptr(), address);
  for (const int64_t micro : {0, 1})
    for (size_t i = 0; i < 3; ++i)
      EXPECT_TRUE(at::equal(recorded.batch(micro).tensors()[i], fresh.batch(micro).tensors()[i]));
}

TEST(StaticBatches, StepThatTheGraphCannotRunIsAnError) {
  const cuda_graphs::StaticBatches batches(FakeStep({batch_of(1)}));
  const auto refusal_of = [&](std::vector<Batch> step) {
    return error_of([&] { batches.copy_from(FakeStep(std::move(step))); });
  };
  EXPECT_NE(refusal_of({batch_of(1), batch_of(1)}).find("number of micro-batches"), std::string::npos);
  EXPECT_NE(refusal_of({batch_of(1, 4)}).find("shape of its batch"), std::string::npos);
  EXPECT_NE(refusal_of({batch_of(1, 2, 5)}).find("number of trained tokens"), std::string::npos);
  Batch positions = batch_of(1);
  positions.positions = positions.positions.contiguous();
  EXPECT_NE(refusal_of({positions}).find("shape of its batch"), std::string::npos);
}

/// Host counts of a micro-batch are constants of the graph, even if the step's sum is the same.
TEST(StaticBatches, TokensThatMoveBetweenMicroBatchesAreAnError) {
  const auto counting = [](int64_t tokens) {
    Batch batch = batch_of(1);
    batch.valid_tokens = tokens;
    return batch;
  };
  const cuda_graphs::StaticBatches batches(FakeStep({counting(2), counting(4)}));
  EXPECT_NE(error_of([&] {
              batches.copy_from(FakeStep({counting(4), counting(2)}));
            }).find("the trained tokens of a micro-batch"),
            std::string::npos);
}

TEST(StaticBatches, TensorsOfPluginsAreCopiedByName) {
  const auto named = [](const std::string& name, int64_t value) {
    Batch batch = batch_of(value);
    if (!name.empty()) batch.named[name] = at::full({3}, value, at::kLong);
    return batch;
  };
  const FakeStep recorded({named("weights", 1)});
  const cuda_graphs::StaticBatches batches(recorded);
  batches.copy_from(FakeStep({named("weights", 7)}));
  EXPECT_EQ(recorded.batch(0).named.at("weights")[2].item<int64_t>(), 7);
  for (const char* other : {"", "masks"})
    EXPECT_NE(
        error_of([&] { batches.copy_from(FakeStep({named(other, 7)})); }).find("the names of its batch"),
        std::string::npos)
        << other;
}

TEST(Steps, StepTimedAsAWholeHasNoPhases) {
  const Json result = Trained(nano_spec(), [](Recipe& recipe) {
                        recipe.schedule.wrap(Phase::capture, [](auto inner) {
                          return [inner](Step& step) {
                            step.time_as_one();
                            step.add_uncounted_memory(int64_t{1} << 40);
                            inner(step);
                            step.set_outcome({step.outcome().loss + 1, step.outcome().gradient_norm, {}});
                          };
                        });
                      }).train();
  const auto plain = losses(Trained(nano_spec()).train());
  for (const auto& [name, seconds] : result["phases"].items())
    EXPECT_EQ(seconds.is_null(), name != "data") << name;
  EXPECT_GT(result["step_seconds"].get<double>(), result["phases"]["data"].get<double>());
  const double peak = result["memory"]["peak_allocated"].get<double>();
  EXPECT_GE(peak, std::ldexp(1.0, 40));
  EXPECT_LT(peak, std::ldexp(1.0, 40) + std::ldexp(1.0, 30));
  EXPECT_FLOAT_EQ(static_cast<float>(losses(result).back()), static_cast<float>(plain.back()) + 1);
}
}  // namespace
}  // namespace optrush::testing
