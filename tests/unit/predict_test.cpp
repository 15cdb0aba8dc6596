// Predictions by a step on tensors without values: the peak equals the measured peak, and the operators'
// costs equal the counted costs.
#include "worker/predict.h"

#include <gtest/gtest.h>

#include "measure/gpus.h"
#include "measure/memory.h"
#include "optrush/torch_versions/cublas_workspace.h"
#include "optrush/torch_versions/gpu_kernels.h"
#include "spec/spec_json.h"
#include "support/folders.h"
#include "support/mlp_spec.h"

namespace optrush::testing {
namespace {
int64_t measured_peak(const RunSpec& spec) {
  install_cpu_memory_tracking();
  const int64_t before = cpu_allocated();
  return Trained(spec).train()["memory"]["peak_allocated"].get<int64_t>() - before;
}

std::optional<int64_t> predicted_peak(const RunSpec& spec) {
  std::string why_not;
  const auto found = forecast(spec, at::kCPU, &why_not);
  EXPECT_TRUE(found) << why_not;
  return found ? std::optional(static_cast<int64_t>(found->memory.peak)) : std::nullopt;
}

TEST(Predict, PeakOfAStepIsExactToTheByte) {
  const PluginUse lora = {"lora", {{"rank", 4}}}, projections = {"fused_projections", Json::object()};
  RunSpec accumulated = nano_spec();
  accumulated.train.accumulation = 3;
  RunSpec wide = mlp_spec({{"swiglu_recompute", {{"level", 1}}}});
  wide.train.seq_len = 200;
  for (const RunSpec& spec :
       {nano_spec(), nano_spec({{"optimizer_in_backward", Json::object()}}), nano_spec({lora}),
        nano_spec({lora, {"nf4", Json::object()}}), accumulated,
        nano_spec({{"activation_checkpointing", {{"policy", "offload"}}}}), nano_spec({projections}),
        nano_spec({projections, {"mixed_precision", Json::object()}}), nano_spec({projections, lora}),
        nano_spec({projections, {"activation_checkpointing", Json::object()}}), mlp_spec({projections}),
        mlp_spec(), mlp_spec({{"swiglu_recompute", {{"level", 0}}}}), wide}) {
    SCOPED_TRACE(to_json(spec).dump());
    const auto predicted = predicted_peak(spec);
    ASSERT_TRUE(predicted.has_value());
    EXPECT_EQ(*predicted, measured_peak(spec));
  }
}

/// CPU kernels have small buffers, for example for a sum.
TEST(Predict, SmallBuffersInsideAKernelAreNotPredicted) {
  const RunSpec spec = nano_spec({{"fused_linear_cross_entropy", Json::object()}});
  const int64_t peak = measured_peak(spec);
  EXPECT_NEAR(static_cast<double>(predicted_peak(spec).value()), static_cast<double>(peak), 1024);
}

TEST(Predict, NeedsNeitherMemoryNorData) {
  RunSpec spec = mlp_spec();
  spec.model = validate_model("operator",
                              {{"op", "mlp"}, {"dim", 65536}, {"ffn_dim", 262144}, {"repeat", 100}}, "test");
  const int64_t parameters = int64_t{3} * 65536 * 262144 * 100;
  const auto predicted = predicted_peak(spec);
  ASSERT_TRUE(predicted.has_value());
  EXPECT_GT(*predicted, 4 * 4 * parameters);
  RunSpec text = nano_spec();
  text.data = {.kind = "text", .path = "/nowhere", .extensions = {}};
  EXPECT_TRUE(predicted_peak(text).has_value());
}

TEST(Predict, RefusesPluginsThatDependOnValues) {
  RunSpec spec =
      nano_spec({{"first_owner", Json::object()}});  // an opaque base that does not declare support
  spec.plugin_path.emplace_back(build_folder() + "/tests/plugins");
  Plan plan;
  add_forecast(plan, spec);
  EXPECT_FALSE(plan.memory);
  EXPECT_TRUE(plan.costs.is_null());
  EXPECT_EQ(plan.no_forecast, "'first_owner' in swiglu depends on values, not only on sizes");
  plan = {};
  add_forecast(plan, nano_spec());
  EXPECT_EQ(plan.memory->device, "cpu");
  EXPECT_FALSE(plan.memory->reserved);
  EXPECT_EQ(plan.memory->cublas_workspaces, 0);
  EXPECT_GT(*plan.memory->available, plan.memory->peak);
}

/// The compiler and plugins that record steps are left out. The step without them is an upper bound.
TEST(Predict, EagerStepBoundsACompiledOne) {
  const RunSpec eager = nano_spec({{"fused_adamw", Json::object()}});
  for (const auto& wraps : {std::vector<PluginUse>{{"compile", Json::object()}},
                            {{"cuda_graphs", Json::object()}},
                            {{"compile", Json::object()}, {"cuda_graphs", Json::object()}}}) {
    SCOPED_TRACE(wraps.front().name + std::to_string(wraps.size()));
    RunSpec spec = eager;
    spec.plugins.insert(spec.plugins.end(), wraps.begin(), wraps.end());
    std::string why_not;
    const auto found = forecast(spec, at::kCUDA, &why_not), plain = forecast(eager, at::kCUDA);
    ASSERT_TRUE(found && plain) << why_not;
    for (const PluginUse& use : wraps) EXPECT_NE(found->memory.bounded_by.find(use.name), std::string::npos);
    EXPECT_EQ(found->memory.peak, plain->memory.peak);
    EXPECT_TRUE(found->costs.is_null());
    // Parameters, their gradients and two moments, and the workspaces of cuBLAS.
    Trained trained(eager);
    int64_t states = 0;
    for (const Param* param : trained.session().params().all()) states += 4 * 4 * param->numel();
    EXPECT_GE(found->memory.least, static_cast<double>(states));
    EXPECT_LT(found->memory.least, found->memory.peak);
    EXPECT_EQ(plain->memory.least, plain->memory.peak);
  }
  Plan plan;
  RunSpec spec = nano_spec({{"compile", Json::object()}});
  add_forecast(plan, spec);
  EXPECT_LT(plan.memory->least, plan.memory->peak);
  EXPECT_FALSE(plan.memory->bounded_by.empty());
}

/// Without a GPU, its forms are predicted as well. The available memory is unknown.
TEST(Predict, NeedsNoGpu) {
  if (load_cuda()) GTEST_SKIP() << "this machine has a GPU";
  RunSpec spec = nano_spec({{"mixed_precision", Json::object()}, {"flash_attention", Json::object()}});
  spec.device = "cuda";
  Plan plan;
  add_forecast(plan, spec);
  ASSERT_TRUE(plan.memory) << plan.no_forecast;
  EXPECT_EQ(plan.memory->device, "cuda");
  EXPECT_FALSE(plan.memory->available);
  EXPECT_EQ(plan.costs["total"]["host_waits"], 0);
}

/// A plugin that depends on the GPU's architecture gets the planned architecture.
TEST(Predict, PluginsGetThePlannedArchitecture) {
  RunSpec experts = nano_spec({{"bf16_weights", Json::object()}, {"grouped_experts", Json::object()}});
  experts.model.update(
      {{"dim", 32}, {"ffn_dim", 48}, {"n_heads", 4}, {"n_experts", 4}, {"experts_per_token", 2}});
  RunSpec fp8 = nano_spec({{"bf16_weights", Json::object()}, {"float8", Json::object()}});
  fp8.model.update({{"dim", 32}, {"ffn_dim", 48}, {"n_heads", 4}});
  RunSpec flash = nano_spec({{"bf16_weights", Json::object()}, {"flash_attention", Json::object()}});
  flash.model.update({{"dim", 32}, {"n_heads", 4}});
  std::string why_not;
  const auto runs = [&](const RunSpec& spec, const char* architecture, const char* op) {
    const auto found = forecast(spec, {at::kCUDA, architecture}, &why_not);
    EXPECT_TRUE(found) << why_not;
    return found && found->costs["operators"].contains(op);
  };
  EXPECT_TRUE(runs(experts, "sm_90", "aten::_grouped_mm"));
  EXPECT_FALSE(runs(experts, "sm_80", "aten::_grouped_mm"));
  EXPECT_TRUE(runs(flash, "sm_90", "aten::_scaled_dot_product_cudnn_attention_backward"));
  EXPECT_FALSE(runs(flash, "sm_80", "aten::_scaled_dot_product_cudnn_attention_backward"));
  EXPECT_TRUE(forecast(fp8, {at::kCUDA, "sm_90"}, &why_not)) << why_not;
  EXPECT_FALSE(forecast(fp8, {at::kCUDA, "sm_80"}, &why_not));
  EXPECT_NE(why_not.find("this GPU is sm_80"), std::string::npos) << why_not;
}

TEST(Predict, AGpuHasBlocksAndAWorkspaceForEachThreadThatMultiplies) {
  RunSpec spec = nano_spec();
  spec.device = "cuda";
  constexpr int64_t kMiB = int64_t{1} << 20;
  for (const auto& [architecture, workspace] :
       {std::pair("sm_80", 8 * kMiB + 128 * 1024), {"sm_90", 32 * kMiB}}) {
    Plan plan;
    add_forecast(plan, spec, architecture);
    ASSERT_TRUE(plan.memory) << plan.no_forecast;
    const PlannedMemory& memory = *plan.memory;
    EXPECT_EQ(memory.cublas_workspaces, (kKeepsCublasWorkspaces ? 2 : 1) * workspace)
        << architecture << ": forward and backward, or a product";
    EXPECT_EQ(memory.peak, *memory.tensors + *memory.block_rounding + *memory.cublas_workspaces);
    EXPECT_EQ(static_cast<int64_t>(memory.peak) % 512, 0);
    EXPECT_GT(memory.reserved, memory.peak);
    EXPECT_EQ(memory.pinned, 0);
  }
}

/// Each block moves its activations to the host and back.
TEST(Predict, OffloadedActivationsAreOnTheHost) {
  RunSpec kept = nano_spec();
  kept.model["n_layers"] = 8;
  RunSpec moved = kept;
  moved.plugins = {{"activation_checkpointing", {{"policy", "offload"}}}};
  std::string why_not;
  const auto here = forecast(kept, at::kCUDA), there = forecast(moved, at::kCUDA, &why_not);
  ASSERT_TRUE(here && there) << why_not;
  EXPECT_EQ(here->memory.pinned, 0);
  EXPECT_GT(there->memory.pinned, 0);
  EXPECT_LT(there->memory.tensors, here->memory.tensors);
  // On a CPU, both are the same memory.
  EXPECT_FALSE(forecast(moved, at::kCPU)->memory.pinned);
}

/// Nobody knows before a run how long the longest document of a micro-batch is.
TEST(Predict, DynamicPaddingIsBoundedByWholeSequences) {
  RunSpec whole = nano_spec();
  whole.data = {.kind = "documents", .path = "not read"};
  RunSpec shorter = whole;
  shorter.plugins = {{"dynamic_padding", Json::object()}};
  std::string why_not;
  const auto exact = forecast(whole, at::kCPU, &why_not), bound = forecast(shorter, at::kCPU, &why_not);
  ASSERT_TRUE(exact && bound) << why_not;
  EXPECT_EQ(bound->memory.peak, exact->memory.peak);
  EXPECT_LT(bound->memory.least, bound->memory.peak);
  EXPECT_EQ(exact->memory.bounded_by, "");
  EXPECT_EQ(bound->memory.bounded_by,
            "the longest document of a micro-batch is assumed to fill train.seq_len");
}

/// The optimizer updates them on the host.
TEST(Predict, OffloadedShardsAreOnTheHost) {
  const PluginUse lora = {"lora", {{"rank", 4}}}, nf4 = {"nf4", Json::object()};
  for (const auto& adapted : {std::vector<PluginUse>{}, {lora}, {lora, nf4}}) {
    const auto with = [&](const Json& options) {
      std::vector<PluginUse> plugins = {{"fsdp", options}};
      plugins.insert(plugins.end(), adapted.begin(), adapted.end());
      RunSpec spec = nano_spec(plugins);
      spec.train.world_size = 2;
      return spec;
    };
    std::string why_not;
    const auto here = forecast(with(Json::object()), at::kCUDA, &why_not);
    const auto there = forecast(with({{"offload", true}}), at::kCUDA, &why_not);
    ASSERT_TRUE(here && there) << why_not;
    EXPECT_EQ(here->memory.pinned, 0);
    EXPECT_GT(there->memory.pinned, 0);
    EXPECT_LT(there->memory.tensors, here->memory.tensors);
  }
}

/// LibTorch rounds a block of pinned memory up to a power of two, so three quarters of one would take the
/// whole.
TEST(Predict, PinnedMemoryEqualsMovedBytes) {
  const auto pinned = [](int64_t sequences) {
    RunSpec spec = nano_spec({{"activation_checkpointing", {{"policy", "offload"}}}});
    spec.train.micro_batch = sequences;
    spec.train.seq_len = 1 << 15;
    const auto found = forecast(spec, at::kCUDA);
    return found ? found->memory.pinned.value_or(0) : 0;
  };
  EXPECT_NEAR(pinned(3) / pinned(4), 0.75, 0.005);
}

/// The GPU's softmax multiplies gradient and output into a tensor of the same size before it sums.
TEST(Predict, TheBackwardOfASoftmaxTakesAThirdTensorOnAGpu) {
  RunSpec spec = nano_spec();
  spec.train.seq_len = 4096;
  const auto gpu = forecast(spec, at::kCUDA), cpu = forecast(spec, at::kCPU);
  ASSERT_TRUE(gpu && cpu);
  const int64_t heads = spec.model["n_heads"].get<int64_t>();
  const int64_t scores = spec.train.micro_batch * heads * 4096 * 4096 * int64_t{sizeof(float)};
  EXPECT_NEAR(*gpu->memory.tensors - *cpu->memory.tensors, static_cast<double>(scores),
              0.05 * static_cast<double>(scores));
}

/// The GPU costs that are derived from CPU operators equal the costs on the simulated device.
TEST(Predict, CostsEqualThoseOfTheSimulatedStep) {
  const PluginUse fused = {"fused_adamw", Json::object()}, flash = {"flash_attention", Json::object()};
  for (const auto& stack : {std::vector<PluginUse>{}, {fused}, {fused, flash}, {{"lora", {{"rank", 4}}}}}) {
    SCOPED_TRACE(stack.empty() ? "" : stack.back().name);
    const RunSpec spec = nano_spec(stack);
    std::string why_not;
    const auto found = forecast(spec, at::kCPU, &why_not);
    ASSERT_TRUE(found) << why_not;
    const Json ran = Trained(spec).train()["costs"];
    for (const char* phase : {"forward", "backward", "optimizer"})
      for (const char* what : {"launches", "casts", "elementwise_bytes", "matmul_flops", "attention_flops"})
        EXPECT_EQ(found->costs["phases"][phase][what], ran["phases"][phase][what])
            << phase << " " << what << "\n"
            << found->costs["operators"].dump() << "\n"
            << ran["operators"].dump();
  }
}

Json predicted_costs(const RunSpec& spec, at::DeviceType form = at::kCUDA) {
  std::string why_not;
  const auto found = forecast(spec, form, &why_not);
  EXPECT_TRUE(found) << why_not;
  return found ? found->costs : Json();
}

TEST(Costs, FusedKernelsLaunchTheDeclaredKernels) {
  // One kernel in the forward, one in the backward, and one that sums the weight's gradient.
  for (const auto& [op, launches] : {std::pair("norm", 3), {"add_norm", 3}, {"position", 2}, {"swiglu", 2}}) {
    SCOPED_TRACE(op);
    RunSpec spec = nano_spec({{"fused_kernels", Json::object()}});
    spec.model_kind = "operator";
    spec.model = validate_model("operator", {{"op", op}, {"dim", 24}, {"n_heads", 3}, {"repeat", 5}}, "test");
    int64_t noted = 0;
    const Json costs = predicted_costs(spec);
    for (const auto& [name, of] : costs["operators"].items())
      if (name.starts_with("optrush::")) noted += of["launches"].get<int64_t>();
    EXPECT_EQ(noted, 5 * launches);
  }
}

/// silu of (S, 4096) numbers of 4 bytes: 32-bit offsets reach 2 GiB, but not one row more.
TEST(Costs, OffsetsOf32BitsCutElementwiseOperators) {
  RunSpec spec = mlp_spec();
  spec.model =
      validate_model("operator", {{"op", "mlp"}, {"dim", 8}, {"ffn_dim", 4096}, {"repeat", 1}}, "test");
  spec.train.micro_batch = 1;
  for (const auto& [length, launches] : {std::pair(1 << 17, 1), {(1 << 17) + 1, 2}, {(1 << 18) + 2, 4}}) {
    spec.train.seq_len = length;
    EXPECT_EQ(predicted_costs(spec)["operators"]["aten::silu"]["launches"], launches) << length;
  }
}

/// Zeros, then one kernel, or a sort with kernels before the sums.
TEST(Costs, TheGradientOfAnEmbeddingSortsManyTokens) {
  RunSpec spec = nano_spec();
  spec.train.micro_batch = 1;
  constexpr int kZeros = kZerosAreMemsets ? 0 : 1, kPasses = kSortsBitsOfTokens ? 1 : 8;
  for (const auto& [length, launches] : {std::pair(3072, 1 + kZeros), {3073, 12 + kPasses + kZeros}}) {
    spec.train.seq_len = length;
    EXPECT_EQ(predicted_costs(spec)["operators"]["aten::embedding_dense_backward"]["launches"], launches);
  }
}

TEST(Costs, FusedAdamWLaunchesByChunksInsteadOfByParameters) {
  RunSpec spec = mlp_spec();
  spec.model =
      validate_model("operator", {{"op", "mlp"}, {"dim", 1024}, {"ffn_dim", 4096}, {"repeat", 8}}, "test");
  const Json plain = predicted_costs(spec);
  EXPECT_GE(plain["phases"]["optimizer"]["launches"].get<int64_t>(), 24 * 7);
  spec.plugins = {{"fused_adamw", Json::object()}};
  // 24 matrices of 64 chunks. A chunk has 65,536 elements, and a launch takes 320 chunks, or seven times as
  // many.
  constexpr int kChunks = 320 * kMultiTensorArguments;
  EXPECT_EQ(predicted_costs(spec)["operators"]["aten::_fused_adamw_"]["launches"],
            (24 * 64 + kChunks - 1) / kChunks);
}

TEST(Costs, EachWeightIsCastOnceAStep) {
  const PluginUse bf16 = {"mixed_precision", Json::object()};
  RunSpec accumulated = nano_spec({bf16});
  accumulated.train.accumulation = 3;
  std::vector<RunSpec> specs = {nano_spec({bf16}), accumulated, nano_spec({bf16, {"lora", {{"rank", 4}}}}),
                                nano_spec({bf16, {"swiglu_recompute", {{"level", 1}}}}),
                                nano_spec({bf16, {"fused_linear_cross_entropy", {{"chunk", 20}}}})};
  for (const char* policy : {"full", "selective", "budget"})
    specs.push_back(nano_spec({bf16, {"activation_checkpointing", {{"policy", policy}}}}));
  for (const RunSpec& spec : specs) {
    SCOPED_TRACE(spec.plugins.back().name + spec.plugins.back().options.dump());
    const Json costs = predicted_costs(spec);
    EXPECT_EQ(costs["weight_casts"]["most"], 1);
    EXPECT_GE(costs["weight_casts"]["parameters"].get<int64_t>(), 15);  // seven in each block, and the head
  }
}

int64_t number(const Json& costs, const char* op, const char* what) {
  return costs["operators"].contains(op) ? costs["operators"][op][what].get<int64_t>() : 0;
}

/// A block adds two gradients of q, k, v and one of gate, up: three passes over (tokens, D). Each pass reads
/// two tensors and writes one.
TEST(Costs, FusedProjectionsAddNoGradientsOfTheirInput) {
  RunSpec spec = nano_spec({{"bf16_weights", Json::object()}, {"fused_kernels", Json::object()}});
  const Json separate = predicted_costs(spec);
  spec.plugins.push_back({"fused_projections", Json::object()});
  const Json fused = predicted_costs(spec);
  const int64_t blocks = 2, tokens = 4 * 16, width = 32, bytes = 2, of_v = 16;
  EXPECT_EQ(number(separate, "aten::add", "launches") - number(fused, "aten::add", "launches"), 3 * blocks);
  EXPECT_EQ(number(separate, "aten::add", "bytes") - number(fused, "aten::add", "bytes"),
            3 * blocks * 3 * tokens * width * bytes);
  // The kernels write the gradients of q and k, and of gate and up, beside each other. That of v is copied.
  EXPECT_EQ(number(fused, "aten::cat", "launches"), number(separate, "aten::cat", "launches"));
  EXPECT_EQ(number(fused, "aten::copy_", "bytes") - number(separate, "aten::copy_", "bytes"),
            blocks * 2 * tokens * of_v * bytes);
  const auto products = [](const Json& costs) {
    return number(costs, "aten::mm", "launches") + number(costs, "aten::addmm", "launches") +
           number(costs, "aten::addmm_", "launches");
  };
  // Two products for each of the two groups, instead of two for each of their five linears.
  EXPECT_EQ(products(separate) - products(fused), blocks * (10 - 4));
  EXPECT_EQ(fused["total"]["matmul_flops"], separate["total"]["matmul_flops"]);
  EXPECT_EQ(fused["total"]["host_waits"], 0);
}

/// Casts of a block's seven linears: x of q, k, v once, x of gate, up once, x of o and of down, and seven
/// gradients. Two kernels each read 2 x 2 bytes and write 2 x 1. The weights are read once, because the
/// update has found their largest values, and cast with their transposes.
TEST(Costs, Float8QuantizesSharedInputsOnce) {
  RunSpec spec = nano_spec({{"bf16_weights", Json::object()}, {"float8", Json::object()}});
  const Json costs = predicted_costs(spec);
  const int64_t blocks = 2, tokens = 4 * 16, d = 32, kv = 16, ffn = 48;
  const int64_t inputs = 3 * d + ffn, gradients = 3 * d + 2 * kv + 2 * ffn;
  const int64_t weights = d * (2 * d + 2 * kv + 3 * ffn);
  EXPECT_EQ(number(costs, "optrush::float8_quantize", "launches"), blocks * (2 * (4 + 7) + 7));
  EXPECT_EQ(number(costs, "optrush::float8_quantize", "bytes"),
            blocks * (6 * tokens * (inputs + gradients) + 3 * weights));
  EXPECT_EQ(number(costs, "optrush::float8_transpose", "bytes"), blocks * 2 * weights);
  // The gradient of an input is one product for all linears that read it.
  EXPECT_EQ(number(costs, "aten::_scaled_mm", "launches"), blocks * (7 + 4 + 7));
}

/// The norms record the largest values of the inputs of q, k, v and gate, up and of the gradients of o and
/// down. The gated unit records those of the input of down and of the gradients of gate and up. So each of
/// these tensors is read once.
TEST(Costs, Float8ReadsTensorsWithNotedMaximaOnce) {
  const auto costs = [](bool noted) {
    return predicted_costs(nano_spec({{"bf16_weights", Json::object()},
                                      {"fused_kernels", {{"largest_values", noted}}},
                                      {"float8", Json::object()}}));
  };
  const Json plain = costs(false), noted = costs(true);
  const int64_t blocks = 2, tokens = 4 * 16, d = 32, ffn = 48;
  EXPECT_EQ(number(plain, "optrush::float8_quantize", "launches") -
                number(noted, "optrush::float8_quantize", "launches"),
            blocks * (2 + 2 + 1 + 2));
  EXPECT_EQ(
      number(plain, "optrush::float8_quantize", "bytes") - number(noted, "optrush::float8_quantize", "bytes"),
      blocks * 2 * tokens * (2 * d + 2 * d + ffn + 2 * ffn));
  for (const char* kernel : {"optrush::add_norm", "optrush::add_norm_backward", "optrush::swiglu_backward"})
    EXPECT_EQ(number(plain, kernel, "bytes"), number(noted, kernel, "bytes"));
}
}  // namespace
}  // namespace optrush::testing
