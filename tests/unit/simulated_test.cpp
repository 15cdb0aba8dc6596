// Training on a device that is not the CPU, without hardware: what a GPU would refuse is refused, what it
// would wait for is counted, and the losses are the CPU's.
#include "simulated/device.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "base/spec_json.h"
#include "check/run_case.h"
#include "measure/step_costs.h"
#include "support/error_of.h"
#include "support/swiglu_stack.h"

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

TEST_F(Simulated, CountsWhatTheHostWaitsFor) {
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
  at::empty({4}).copy_(there, /*non_blocking=*/true);  // pageable: the driver stages it
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
  EXPECT_EQ(losses_there(stack_spec()), losses(Trained(stack_spec()).train()));
}

// A check in double sets the values of what is frozen, and has to do so where the run is.
TEST_F(Simulated, ChecksRunOnAnotherDeviceThanTheCpu) {
  const at::Device device = simulated::open(simulated::Values::host);
  StackCheck stacks(device);
  for (const char* plugin : {"lora", "activation_checkpointing"}) {
    CheckCase alone{
        .id = plugin, .kind = CheckKind::alone, .subjects = {plugin}, .spec = nano_spec({{plugin}})};
    for (const CheckKind kind : {CheckKind::alone, CheckKind::resume}) {
      alone.kind = kind;
      const CheckResult result = run_case(alone, device, stacks);
      EXPECT_EQ(result.status, "ok") << result.detail;
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
  // Autocast's lists of operators are a GPU's, not the CPU's: equal to the precision, not to the bit.
  for (const char* dtype : {"bf16", "fp16"}) {
    const PluginUse use{"mixed_precision", {{"dtype", dtype}}};
    const auto expected = losses(Trained(nano_spec({use})).train()), got = losses_there(nano_spec({use}));
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 2e-2 * expected[i]) << dtype;
  }
}

/// Counted where the step runs and where the device carries it out.
TEST_F(Simulated, ThePlainStepDoesNotWait) {
  for (const auto& stack : {std::vector<PluginUse>{},
                            {{"fused_adamw", Json::object()}, {"clip_grad_norm", {{"max_norm", 0.5}}}}}) {
    RunSpec spec = nano_spec(stack);
    spec.train.warmup = 2;  // the second is counted: in the first the rotary frequencies move to the device
    const Json costs = Trained(spec, {}, simulated::open(simulated::Values::host)).train()["costs"];
    for (const auto& [phase, cost] : costs["phases"].items())
      EXPECT_EQ(cost["host_waits"], 0) << phase << costs["operators"].dump();
    EXPECT_EQ(costs["phases"]["data"]["copies"], 1);         // the tokens, pinned
    EXPECT_EQ(costs["phases"]["bookkeeping"]["copies"], 2);  // loss and gradient norm
    EXPECT_EQ(costs["total"]["copies"], 1);
  }
}
}  // namespace
}  // namespace optrush::testing
