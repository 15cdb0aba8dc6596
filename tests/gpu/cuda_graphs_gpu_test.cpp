// Recorded steps have the losses of eager steps, bit for bit.
#include "on_gpu.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
constexpr double kMiB = 1 << 20;

class CudaGraphsOnGpu : public OnGpu {};

RunSpec spec_of(std::vector<PluginUse> stack) {
  stack.push_back({"fused_adamw", Json::object()});
  RunSpec spec = nano_spec(std::move(stack));
  spec.train.micro_batch = 16;  // activations of several MiB
  spec.train.warmup = 3;
  spec.train.steps = 6;
  spec.device = "cuda";
  return spec;
}

TEST_F(CudaGraphsOnGpu, ReplayedStepsAreBitEqualToEagerSteps) {
  const std::vector<std::vector<PluginUse>> stacks = {
      {},
      {{"gradient_accumulation", {{"steps", 2}}}, {"clip_grad_norm", {{"max_norm", 0.5}}}},
      {{"mixed_precision", {{"dtype", "bf16"}}}, {"flash_attention", Json::object()}},
      {{"mixed_precision", {{"dtype", "fp16"}}}, {"lora", {{"rank", 4}}}}};
  for (const auto& stack : stacks) {
    SCOPED_TRACE(&stack - stacks.data());
    auto recorded = stack;
    recorded.push_back({"cuda_graphs", Json::object()});
    const Json expected = Trained(spec_of(stack), {}, at::Device(at::kCUDA, 0)).train();
    const Json got = Trained(spec_of(recorded), {}, at::Device(at::kCUDA, 0)).train();
    EXPECT_EQ(losses(got), losses(expected));
    EXPECT_TRUE(got["phases"]["forward"].is_null());
    EXPECT_GT(got["step_seconds"].get<double>(), 0);
    const auto peak_of = [](const Json& result) { return result["memory"]["peak_allocated"].get<double>(); };
    // The recording stream has additional workspaces of cuBLAS.
    EXPECT_GT(peak_of(got), peak_of(expected) - kMiB);
    EXPECT_LT(peak_of(got), peak_of(expected) + 65 * kMiB);
  }
}

TEST_F(CudaGraphsOnGpu, StepThatWaitsForTheHostFailsInsteadOfHanging) {
  const auto waits = [](Recipe& recipe) {
    recipe.ops.swiglu.wrap(Phase::adapter,
                           [](auto inner) {
                             return [inner](const Tensor& gate, const Tensor& up) {
                               const Tensor out = inner(gate, up);
                               out.sum().item<double>();
                               return out;
                             };
                           },
                           {.trace = Trace::aten, .capturable = true});
  };
  Trained trained(spec_of({{"cuda_graphs", Json::object()}}), waits, at::Device(at::kCUDA, 0));
  EXPECT_ANY_THROW(trained.train());
}
}  // namespace
}  // namespace optrush::testing
