// Training on a simulated device. It refuses operations that a GPU refuses, counts host waits, and gives the
// losses of the CPU.
#include "simulated/device.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "measure/step_costs.h"
#include "plugin_check/run_case.h"
#include "simulated/caching_allocator.h"
#include "simulated/ledger.h"
#include "spec/spec_json.h"
#include "support/error_of.h"
#include "support/mlp_spec.h"

namespace optrush::testing {
namespace {
class Simulated : public ::testing::Test {
 protected:
  static std::vector<double> losses_there(const RunSpec& spec) {
    return losses(Trained(spec, {}, simulated::open(simulated::Values::host)).train());
  }
};

TEST_F(Simulated, ComputesAndRefusesToMixDevices) {
  const at::Device device = simulated::open(simulated::Values::host);
  const Tensor x = at::arange(6, at::kFloat).view({2, 3});
  const Tensor there = x.to(device);
  EXPECT_TRUE(at::equal((there.t() * 2 + 1).to(at::kCPU), x.t() * 2 + 1));
  EXPECT_TRUE(at::equal(at::mm(there, there.t()).to(at::kCPU), at::mm(x, x.t())));
  EXPECT_NO_THROW(there * at::scalar_tensor(2.0));
  EXPECT_THROW(there + x, c10::Error);
  EXPECT_THROW(at::mm(there, x.t()), c10::Error);
}

TEST_F(Simulated, CountsWaitsOfTheHost) {
  const at::Device device = simulated::open(simulated::Values::host);
  const Tensor there = at::ones({4}, at::TensorOptions().device(device));
  simulated::reset_counts();
  there.sum().item<float>();
  EXPECT_EQ(simulated::counts().waits, 1);
  Tensor pinned = at::empty({4}, at::TensorOptions(at::kFloat).pinned_memory(true));
  pinned.copy_(there, /*non_blocking=*/true);
  EXPECT_EQ(simulated::counts().waits, 1);
  EXPECT_EQ(simulated::counts().copies, 1);
  there.to(at::kCPU);
  at::empty({4}).copy_(there, /*non_blocking=*/true);  // pageable memory: the driver stages the copy
  EXPECT_EQ(simulated::counts().waits, 3);
  EXPECT_EQ(simulated::counts().copies, 3);
}

TEST_F(Simulated, EveryKindOfModelTrainsAsOnTheCpu) {
  for (const char* op : {"norm", "add_norm", "position", "attention", "swiglu", "linear", "head_loss"}) {
    SCOPED_TRACE(op);
    RunSpec spec = nano_spec();
    spec.model_kind = "operator";
    spec.model =
        validate_model("operator", {{"op", op}, {"dim", 24}, {"n_heads", 3}, {"vocab_size", 50}}, "test");
    EXPECT_EQ(losses_there(spec), losses(Trained(spec).train()));
  }
  EXPECT_EQ(losses_there(nano_spec()), losses(Trained(nano_spec()).train()));
  EXPECT_EQ(losses_there(mlp_spec()), losses(Trained(mlp_spec()).train()));
}

// A check in double sets the values of frozen parameters on the device of the run.
TEST_F(Simulated, ChecksRunOnAnotherDeviceThanTheCpu) {
  const CheckContext context{simulated::open(simulated::Values::host),
                             Catalogue::find(nano_spec().plugin_path)};
  StackCheck stacks(context);
  for (const char* plugin : {"lora", "activation_checkpointing"}) {
    CheckCase alone{
        .id = plugin, .kind = CheckKind::alone, .subjects = {plugin}, .spec = nano_spec({{plugin}})};
    for (const CheckKind kind : {CheckKind::alone, CheckKind::resume}) {
      alone.kind = kind;
      const CaseEnd result = run_case(alone, context, stacks);
      EXPECT_EQ(result.status, CaseStatus::ok) << result.detail;
      EXPECT_FALSE(result.code);
    }
  }
}

TEST_F(Simulated, PluginsMadeOfAtenCallsTrainAsOnTheCpu) {
  for (const PluginUse& use :
       {PluginUse{"activation_checkpointing", Json::object()},
        PluginUse{"activation_checkpointing", {{"policy", "selective"}}},
        PluginUse{"activation_checkpointing", {{"policy", "budget"}}},
        PluginUse{"activation_checkpointing", {{"policy", "offload"}}},
        PluginUse{"clip_grad_norm", {{"max_norm", 0.5}}}, PluginUse{"flash_attention", Json::object()},
        PluginUse{"fused_adamw", Json::object()}, PluginUse{"gradient_accumulation", {{"steps", 2}}},
        PluginUse{"lora", {{"rank", 4}}}, PluginUse{"swiglu_recompute", {{"level", 1}}}}) {
    SCOPED_TRACE(use.name + use.options.dump());
    EXPECT_EQ(losses_there(nano_spec({use})), losses(Trained(nano_spec({use})).train()));
  }
  // Autocast uses the GPU's lists of operators, so losses agree to the precision, not to the bit.
  for (const char* dtype : {"bf16", "fp16"}) {
    const PluginUse use{"mixed_precision", {{"dtype", dtype}}};
    const auto expected = losses(Trained(nano_spec({use})).train()), got = losses_there(nano_spec({use}));
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 2e-2 * expected[i]) << dtype;
  }
}

/// Counts from the step and from the device.
TEST_F(Simulated, ThePlainStepDoesNotWait) {
  for (const auto& stack : {std::vector<PluginUse>{},
                            {{"fused_adamw", Json::object()}, {"clip_grad_norm", {{"max_norm", 0.5}}}}}) {
    RunSpec spec = nano_spec(stack);
    spec.train.warmup =
        2;  // the second step is counted, because the first moves the rotary frequencies to the device
    const Json costs = Trained(spec, {}, simulated::open(simulated::Values::host)).train()["costs"];
    for (const auto& [phase, cost] : costs["phases"].items())
      EXPECT_EQ(cost["host_waits"], 0) << phase << costs["operators"].dump();
    EXPECT_EQ(costs["phases"]["data"]["copies"], 1);         // tokens, from pinned memory
    EXPECT_EQ(costs["phases"]["bookkeeping"]["copies"], 2);  // loss and gradient norm
    EXPECT_EQ(costs["total"]["copies"], 1);
  }
}

constexpr int64_t kMiB = int64_t{1} << 20;

/// The numbers are from the allocator of LibTorch 2.11.
TEST(CachingAllocator, SegmentsMatchLibTorch) {
  simulated::CachingAllocator allocator{simulated::CachingAllocator::Settings{}};
  const auto expect = [&](int64_t allocated, int64_t reserved) {
    EXPECT_EQ(allocator.allocated(), allocated);
    EXPECT_EQ(allocator.reserved(), reserved);
  };
  const int64_t tiny = allocator.allocate(1, 0);
  expect(512, 2 * kMiB);
  allocator.allocate(kMiB, 0);  // 1 MiB is small, and still fits beside the 512 bytes
  expect(512 + kMiB, 2 * kMiB);
  allocator.allocate(kMiB, 0);
  expect(512 + 2 * kMiB, 4 * kMiB);
  const int64_t middle = allocator.allocate(kMiB + 1, 0);  // the first large block: a part of 20 MiB
  expect(1024 + 3 * kMiB, 24 * kMiB);
  const int64_t large = allocator.allocate(11 * kMiB, 0);  // from the rest of the 20 MiB
  expect(1024 + 14 * kMiB, 24 * kMiB);
  allocator.allocate(11 * kMiB, 0);  // a segment of its size, rounded to 2 MiB; 1 MiB over is not split off
  expect(1024 + 26 * kMiB, 36 * kMiB);
  allocator.release(large);
  allocator.release(middle);  // neighbours: 20 MiB again
  allocator.release(tiny);
  expect(14 * kMiB, 36 * kMiB);
  allocator.allocate(20 * kMiB, 0);
  expect(34 * kMiB, 36 * kMiB);
  allocator.allocate(4 * kMiB, 1);  // another stream does not use this free memory
  expect(38 * kMiB, 56 * kMiB);
}

TEST(CachingAllocator, TakesTheSmallestFreeBlockThatFits) {
  simulated::CachingAllocator allocator{simulated::CachingAllocator::Settings{}};
  const int64_t wide = allocator.allocate(64 * kMiB, 0), narrow = allocator.allocate(32 * kMiB, 0);
  allocator.release(wide);
  allocator.release(narrow);
  EXPECT_EQ(allocator.allocate(30 * kMiB, 0), narrow);
  EXPECT_EQ(allocator.allocate(60 * kMiB, 0), wide);
  EXPECT_EQ(allocator.reserved(), 96 * kMiB);
  EXPECT_EQ(allocator.allocated(), 90 * kMiB);
}

/// When sizes change, fixed segments are left unused. An expandable segment is not.
TEST(CachingAllocator, ExpandableSegmentsGrow) {
  simulated::CachingAllocator fixed{simulated::CachingAllocator::Settings{}},
      expandable{simulated::CachingAllocator::Settings{.expandable = true}};
  for (auto* allocator : {&fixed, &expandable})
    for (const int64_t size : {40, 60, 80}) allocator->release(allocator->allocate(size * kMiB, 0));
  EXPECT_EQ(fixed.reserved(), 180 * kMiB);
  EXPECT_EQ(expandable.reserved(), 80 * kMiB);
  expandable.allocate(75 * kMiB, 0);
  expandable.allocate(10 * kMiB, 0);  // 5 MiB are left at the end: one more page of 20
  EXPECT_EQ(expandable.reserved(), 100 * kMiB);
}

TEST(Workspaces, SizeDependsOnArchitectureAndCublasVariable) {
  const auto workspace = [](const char* architecture) {
    simulated::Ledger ledger(simulated::Form(at::kCUDA, architecture));
    ledger.multiply(0);
    ledger.multiply(0);
    return ledger.use().now.workspaces;
  };
  EXPECT_EQ(workspace("sm_80"), 8 * kMiB + 128 * 1024);
  EXPECT_EQ(workspace("sm_89"), 8 * kMiB + 128 * 1024);
  for (const char* newer : {"sm_90", "sm_100", "sm_120"}) EXPECT_EQ(workspace(newer), 32 * kMiB) << newer;
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:2:16:8", 1);
  EXPECT_EQ(workspace("sm_90"), 8 * kMiB + 128 * 1024);
  setenv("CUBLAS_WORKSPACE_CONFIG", "nothing", 1);
  EXPECT_EQ(workspace("sm_90"), 32 * kMiB);
  unsetenv("CUBLAS_WORKSPACE_CONFIG");
  simulated::Ledger cpu{simulated::Form(at::kCPU)};
  cpu.multiply(0);
  EXPECT_EQ(cpu.use().now.total(), 0);
}

TEST(Workspaces, OneForEachThreadAndStreamThatMultiplies) {
  simulated::Ledger ledger{simulated::Form(at::kCUDA)};
  ledger.multiply(0);
  ledger.multiply(1);
  std::thread([&] { ledger.multiply(0); }).join();
  EXPECT_EQ(ledger.use().now.workspaces, 3 * 32 * kMiB);
}

TEST_F(Simulated, AForwardAndABackwardHaveAWorkspaceEach) {
  const at::Device device = simulated::open(simulated::Values::none, at::kCUDA);
  const auto on_device = at::TensorOptions(device);
  const Tensor x = at::empty({4, 4}, on_device), w = at::empty({4, 4}, on_device).requires_grad_();
  EXPECT_EQ(simulated::allocated().workspaces, 0);
  const Tensor loss = at::mm(x, w).sum();
  EXPECT_EQ(simulated::allocated().workspaces, 32 * kMiB);
  loss.backward();
  EXPECT_EQ(simulated::allocated().workspaces, 64 * kMiB);
  EXPECT_EQ(simulated::reserved(), 66 * kMiB) << "two segments of 32 MiB, and one of 2 for small tensors";
  EXPECT_EQ(simulated::allocated().rounding % 4, 0);
  EXPECT_EQ(simulated::peak().total(), simulated::peak().tensors + simulated::peak().rounding + 64 * kMiB);
}

/// Memory of an earlier device is counted separately.
TEST_F(Simulated, OpensWithEmptyMemory) {
  const at::Device device = simulated::open(simulated::Values::none, at::kCUDA);
  Tensor kept = at::empty({1024}, at::TensorOptions(device));
  simulated::open(simulated::Values::none, at::kCPU);
  EXPECT_EQ(simulated::allocated().total(), 0);
  kept.reset();
  EXPECT_EQ(simulated::allocated().total(), 0);
}
}  // namespace
}  // namespace optrush::testing
