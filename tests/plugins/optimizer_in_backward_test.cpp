// Parameters updated in the backward: the same training to the bit, with less memory.
#include <ATen/Functions.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "measure/memory.h"
#include "optimizer_in_backward/updates_beside.h"
#include "optimizers.h"
#include "optrush/step.h"
#include "simulated/device.h"
#include "support/error_of.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Stack = std::vector<PluginUse>;
const PluginUse kInBackward = use("optimizer_in_backward");

/// The losses, gradient norms and final parameters of a training.
struct Training {
  explicit Training(const RunSpec& spec) : before(tracked()), run(spec), result(run.train()) {
    for (const Json& step : result["steps"]) curve.emplace_back(step["loss"], step["grad_norm"]);
    for (const Param* param : run.session().params().all()) values.push_back(param->leaf.detach().clone());
  }
  static int64_t tracked() {
    install_cpu_memory_tracking();
    return cpu_allocated();
  }
  /// The bytes of a step.
  int64_t peak() const { return result["memory"]["peak_allocated"].get<int64_t>() - before; }
  int64_t gradients() const { return result["memory"]["parts"]["gradients"]; }

  int64_t before = 0;
  Trained run;
  Json result;
  std::vector<std::pair<double, double>> curve;
  Tensors values;
};

Stack with_in_backward(Stack stack) {
  stack.push_back(kInBackward);
  return stack;
}

void expect_equal_training_runs(const Training& a, const Training& b) {
  EXPECT_EQ(a.curve, b.curve);
  ASSERT_EQ(a.values.size(), b.values.size());
  for (size_t i = 0; i < a.values.size(); ++i) EXPECT_TRUE(at::equal(a.values[i], b.values[i])) << i;
}

TEST(OptimizerInBackward, TrainingIsBitEqualWithEveryOptimizer) {
  for (const Stack& stack :
       {Stack{},
        {use("fused_adamw")},
        {use("bf16_weights")},
        {use("adamw_8bit")},
        {use("muon"), use("fused_adamw")},
        {use("mixed_precision"), use("fused_adamw")},
        {use("lora", {{"rank", 4}, {"dropout", 0.5}})},
        {use("activation_checkpointing"), use("fused_linear_cross_entropy"), use("swiglu_recompute")}}) {
    SCOPED_TRACE(stack.empty() ? "plain" : stack.front().name);
    for (const bool tied : {false, true}) {
      RunSpec spec = nano_spec(stack), in_backward = nano_spec(with_in_backward(stack));
      for (RunSpec* each : {&spec, &in_backward}) {
        each->model["tie_embeddings"] = tied;
        each->train.steps = 4;
      }
      expect_equal_training_runs(Training(in_backward), Training(spec));
    }
  }
}

TEST(OptimizerInBackward, UpdatesParametersOneByOneFromTheFirstStep) {
  // The number of gradients in memory each time one is final, in two steps.
  std::vector<int64_t> held;
  RunSpec spec = nano_spec({kInBackward});
  spec.train.warmup = 0;
  Trained trained(spec, [&](Recipe& recipe) {
    recipe.on(Event::materialized, Phase::measure, [&](optrush::Run& run) {
      run.data_parallel().on_ready([&](Shard&) {
        held.push_back(std::ranges::count_if(
            run.params().all(), [](const Param* param) { return param->leaf.grad().defined(); }));
      });
    });
  });
  trained.train();
  EXPECT_EQ(held.size(), 2 * trained.session().data_parallel().shards().size());
  EXPECT_THAT(held, Each(1));
}

TEST(OptimizerInBackward, SavesTheGradientsOfAllOtherParameters) {
  RunSpec spec = nano_spec({use("fused_adamw")});
  spec.model["dim"] = 128;
  spec.model["ffn_dim"] = 384;
  spec.model["n_layers"] = 6;
  spec.train.micro_batch = 1;
  spec.train.seq_len = 8;
  const Training plain(spec);
  spec.plugins.push_back(kInBackward);
  const Training in_backward(spec);
  expect_equal_training_runs(in_backward, plain);
  const int64_t largest = 4 * 128 * 384;
  EXPECT_EQ(in_backward.gradients(), largest);
  const int64_t saved = plain.gradients() - largest;
  // The peak comes earlier in the backward, when activations are in memory as well.
  EXPECT_LT(in_backward.peak(), plain.peak() - saved * 3 / 4);
  EXPECT_GE(in_backward.peak(), plain.peak() - saved);
}

TEST(OptimizerInBackward, SumsMicroBatchesBeforeTheUpdate) {
  RunSpec spec = nano_spec();
  spec.train.accumulation = 3;
  const Training plain(spec);
  spec.plugins.push_back(kInBackward);
  Training in_backward(spec);
  expect_equal_training_runs(in_backward, plain);
  EXPECT_EQ(in_backward.gradients(), plain.gradients()) << "all gradients exist until the last micro-batch";
  EXPECT_THAT(in_backward.run.session().log().notes(),
              ElementsAre(HasSubstr("3 micro-batches are accumulated")));
}

TEST(OptimizerInBackward, PluginsThatNeedAllGradientsAreRefusedByName) {
  const auto opened = [](Stack stack) {
    return error_of([&] { Trained trained(nano_spec(with_in_backward(std::move(stack)))); });
  };
  EXPECT_THAT(opened({use("clip_grad_norm")}), HasSubstr("clip_grad_norm"));
  EXPECT_THAT(opened({use("mixed_precision", {{"dtype", "fp16"}})}),
              HasSubstr("'mixed_precision' needs all of them"));
  const auto edited = [](const std::function<void(Recipe&)>& edit) {
    return error_of([&] { Trained trained(nano_spec({kInBackward}), edit); });
  };
  EXPECT_THAT(edited([](Recipe& recipe) { recipe.gradients.replace([](Gradients&, Update&) {}); }),
              HasSubstr("'test' needs all of them"));
  EXPECT_THAT(edited([](Recipe& recipe) {
                recipe.gradients.wrap(Phase::optimizer, [](auto inner) { return inner; });
              }),
              HasSubstr("'test' needs all of them"));
  Trained in_bf16(nano_spec(with_in_backward({use("mixed_precision")})));
}

TEST(OptimizerInBackward, AGradientInABufferStaysThere) {
  Trained trained(nano_spec());
  Shard& shard = trained.session().data_parallel().shards().front();
  shard.grad = at::ones_like(shard.data);
  shard.grad_in_buffer = true;
  Gradients::release(shard);
  EXPECT_TRUE(shard.grad.defined());
  EXPECT_TRUE(shard.released.empty()) << "a released gradient would count as saved memory";
  shard.grad_in_buffer = false;
  const double norm = trained.session().gradients().norm().item<double>();
  Gradients::release(shard);
  EXPECT_FALSE(shard.grad.defined());
  EXPECT_EQ(trained.session().gradients().norm().item<double>(), norm);
}

/// An addition to a gradient after its use would be lost, so an error names the parameter.
TEST(OptimizerInBackward, ABackwardInPartsIsAnError) {
  const auto backward_twice = [](Recipe& recipe) {
    recipe.schedule.wrap(Phase::measure, [](auto /*inner*/) {
      return [](Step& step) {
        const Tensor loss = step.forward(0, 0, {}), again = step.forward(0, 0, {});
        step.backward(0, 0, loss, {}, true);
        step.backward(0, 0, again, {}, true);
        step.update();
      };
    });
  };
  EXPECT_THAT(error_of([&] { Trained(nano_spec({kInBackward}), backward_twice).train(); }),
              HasSubstr("changed after it was final"));
}
TEST(OptimizerInBackward, ASecondStreamNeedsAGpu) {
  const PluginUse beside = use("optimizer_in_backward", {{"stream", "side"}});
  EXPECT_THAT(error_of([&] { Trained trained(nano_spec({beside})); }),
              AllOf(HasSubstr("stream = \"side\" needs a GPU"), HasSubstr("leave this option out on a CPU")));
}

/// Their memory is used again in the order of the computing stream, so it waits before a gradient is freed.
TEST(OptimizerInBackward, GradientsOfUpdatesOnASecondStreamAreKept) {
  constexpr int64_t kBytes = 1 << 20, kKept = 8;
  const at::Device device = simulated::open(at::kCUDA);
  optimizer_in_backward::UpdatesBeside updates(device);
  const c10::impl::VirtualGuardImpl streams(device.type());
  const c10::Stream computing = streams.getStream(device);
  for (int64_t i = 1; i <= 2 * kKept; ++i) {
    updates.run(at::empty({kBytes}, at::TensorOptions(at::kByte).device(device)),
                [&] { EXPECT_NE(streams.getStream(device), computing); });
    EXPECT_EQ(streams.getStream(device), computing);
    EXPECT_EQ(simulated::allocated().tensors, kBytes * std::min(i, kKept));
  }
  updates.wait();
  EXPECT_EQ(simulated::allocated().tensors, 0);
}
}  // namespace
}  // namespace optrush::testing
