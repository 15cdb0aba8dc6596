// Exact bytes and FLOPs of a step, and the initial values of parameters.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "measure/flops.h"
#include "measure/memory.h"
#include "measure/saved_tensors.h"
#include "params/init.h"
#include "support/training.h"

namespace optrush::testing {
namespace {
/// Matmul parameters of nano_spec. Each block: q 32x32, k and v 16x32, o 32x32, three 48x32 in the MLP. Head:
/// 64x32.
constexpr double kMatmulParameters = 2 * (32 * 32 + 2 * 16 * 32 + 32 * 32 + 3 * 48 * 32) + 64 * 32;

TEST(InitialValue, DoesNotDependOnTheNumberOfThreads) {
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
        << "each block has its own random stream";
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

TEST(CpuMemory, CountsRequestedBytesOfTensors) {
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

TEST(SavedTensors, OuterScopeCountsWhatAnInnerOneKeeps) {
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

TEST(SavedTensors, CountingDoesNotChangeGradients) {
  const Tensor x = at::randn({4, 8}, at::kDouble).requires_grad_();
  const Tensor expected = (x.exp() * x.sin()).sum();
  expected.backward();
  const Tensor gradient = x.grad().clone();
  x.mutable_grad().reset();
  SavedTensorCount count({});
  (x.exp() * x.sin()).sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), gradient));
}

TEST(Flops, FormulasMatchExecutedOperators) {
  const Json result = Trained(nano_spec()).train();
  const auto& flops = result["flops_per_token"];
  const double attention = 12.0 * 2 * 16 * 32;  // 12 L S (heads head_dim)
  EXPECT_DOUBLE_EQ(flops["mfu"], 6 * kMatmulParameters + attention);
  EXPECT_DOUBLE_EQ(flops["mfu_causal"], 6 * kMatmulParameters + attention / 2);
  EXPECT_DOUBLE_EQ(flops["hfu"], flops["mfu"].get<double>());
}

/// Layer 0 of the nano model with Gated DeltaNet in place of its attention.
TEST(Flops, LinearAttentionCountsItsState) {
  RunSpec spec = nano_spec();
  spec.model["delta_net"] = {{"key_heads", 2}, {"value_heads", 4}, {"key_dim", 6}, {"value_dim", 10}};
  spec.model["full_attention_layers"] = {1};
  const double channels = 2 * 2 * 6 + 4 * 10, projections = 32 * (channels + 40 + 4 + 4) + 40 * 32;
  const double attention = 12.0 * 16 * 32, matrices_of_attention = 2 * 32 * 32 + 2 * 16 * 32;
  const double state = 3 * (6.0 * 4 * 6 * 10 + 2 * 4 * channels);
  EXPECT_DOUBLE_EQ(Trained(spec).train()["flops_per_token"]["mfu"],
                   6 * (kMatmulParameters - matrices_of_attention + projections) + attention + state);
}

TEST(Flops, Mamba2CountsItsState) {
  RunSpec spec = nano_spec();
  spec.model["mamba"] = {{"heads", 4}, {"groups", 2}, {"head_dim", 10}, {"state", 6}};
  spec.model["full_attention_layers"] = {1};
  const double channels = 4 * 10 + 2 * 2 * 6, projections = 32 * (channels + 40 + 4) + 40 * 32;
  const double attention = 12.0 * 16 * 32, matrices_of_attention = 2 * 32 * 32 + 2 * 16 * 32;
  const double state = 3 * (4.0 * 4 * 6 * 10 + 2 * 4 * channels);
  EXPECT_DOUBLE_EQ(Trained(spec).train()["flops_per_token"]["mfu"],
                   6 * (kMatmulParameters - matrices_of_attention + projections) + attention + state);
}

TEST(Flops, MlpsWithoutAGateHaveTwoProducts) {
  RunSpec spec = nano_spec();
  spec.model["activation"] = "relu2";
  spec.model["layers_without_mlp"] = {0};
  const Json flops = Trained(spec).train()["flops_per_token"];
  const double attention = 12.0 * 2 * 16 * 32;
  EXPECT_DOUBLE_EQ(flops["mfu"], 6 * (kMatmulParameters - 4 * 48 * 32) + attention);
  EXPECT_DOUBLE_EQ(flops["hfu"], flops["mfu"].get<double>());
}

/// Layer 1 of the nano model without matrices of keys and values, and with an MLP of twice the width.
TEST(Flops, InputsOfLayersAndSharedKeysCountTheirMatrices) {
  RunSpec spec = nano_spec();
  const double plain = Trained(spec).train()["flops_per_token"]["mfu"];
  const double mlp = 3 * 32 * spec.model.at("ffn_dim").get<double>();
  spec.model.update({{"kv_shared_layers", 1}, {"double_wide_mlp", true}, {"per_layer_input_dim", 6}});
  const double of_inputs = 2 * 6 * 32 /* projection of the embedding */ + 2 * 2 * 6 * 32;
  EXPECT_DOUBLE_EQ(Trained(spec).train()["flops_per_token"]["mfu"],
                   plain + 6 * (of_inputs + mlp - 2 * 16 * 32));
}

TEST(Flops, AFusedCausalKernelRunsHalf) {
  const Json result = Trained(nano_spec({{"flash_attention", Json::object()}})).train();
  const double attention = 12.0 * 2 * 16 * 32;
  // The plain form has six matmuls. The kernel has two in the forward and five in the backward, since it
  // recomputes the scores. It computes half of each.
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
}  // namespace
}  // namespace optrush::testing
