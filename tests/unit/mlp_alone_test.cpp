// The operator "mlp": a model of MLPs alone.
#include "support/mlp_spec.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "data/batches.h"

namespace optrush::testing {
namespace {
TEST(MlpAlone, TrainsWithoutTokensOrData) {
  RunSpec spec = mlp_spec();
  spec.train.steps = 6;
  spec.data = {.kind = "text", .path = "/nowhere", .extensions = {}};  // not opened
  const Json result = Trained(spec).train();
  const auto loss = losses(result);
  EXPECT_LT(loss.back(), loss.front());
  for (const auto& step : result["steps"]) {
    EXPECT_GT(step["grad_norm"].get<double>(), 1e-3);
    EXPECT_EQ(step["tokens"], 4 * 16);
  }
}

TEST(MlpAlone, EveryLayerDoesThreeMatmulsForwardAndSixBackward) {
  const Json result = Trained(mlp_spec()).train();
  const double parameters = 3 * 3 * 32 * 48;
  EXPECT_DOUBLE_EQ(result["flops_per_token"]["mfu"], 6 * parameters);
  EXPECT_DOUBLE_EQ(result["flops_per_token"]["mfu_causal"], 6 * parameters);
  EXPECT_DOUBLE_EQ(result["flops_per_token"]["hfu"], 6 * parameters);
}

TEST(MlpAlone, MatchesTheFormulaOfItsParameters) {
  RunSpec spec = mlp_spec();
  spec.train.dtype = "fp64";
  Trained trained(spec);
  Session& session = trained.session();
  Batch batch = Batches(spec, session.model(), session.mesh(), at::kCPU).step(0).at(0);
  batch.token_count = static_cast<double>(batch.valid_tokens);
  Tensor x = batch.input.to(at::kDouble);
  for (int64_t layer = 0; layer < 3; ++layer) {
    const auto weight = [&](const char* name) {
      return session.params()
          .at("model.layers." + std::to_string(layer) + ".mlp." + name + "_proj.weight")
          .leaf;
    };
    const Tensor gate = at::matmul(x, weight("gate").t()), up = at::matmul(x, weight("up").t());
    x = x + at::matmul(gate / (1 + (-gate).exp()) * up, weight("down").t());
  }
  EXPECT_NEAR(session.forward(0, batch, {}).item<double>(), x.pow(2).mean().item<double>(), 1e-12);
}

TEST(MlpAlone, SequencesDoNotDependOnTheMicroBatch) {
  const auto inputs = [](int64_t micro_batch, int64_t accumulation, int64_t step) {
    RunSpec spec = mlp_spec();
    spec.train.micro_batch = micro_batch;
    spec.train.accumulation = accumulation;
    Trained trained(spec);
    Session& session = trained.session();
    Tensors parts;
    for (const Batch& batch : Batches(spec, session.model(), session.mesh(), at::kCPU).step(step))
      parts.push_back(batch.input);
    return at::cat(parts);
  };
  EXPECT_TRUE(at::equal(inputs(4, 1, 1), inputs(1, 4, 1)));
  EXPECT_FALSE(at::equal(inputs(4, 1, 1), inputs(4, 1, 2)));
}

TEST(MlpAlone, AdaptersAndCheckpointingApply) {
  const Json lora =
      Trained(mlp_spec({{"lora", {{"rank", 4}, {"target_modules", {"gate_proj", "down_proj"}}}}})).train();
  EXPECT_DOUBLE_EQ(lora["flops_per_token"]["mfu"], 4.0 * 3 * 3 * 32 * 48 + 6.0 * 3 * 2 * 4 * (32 + 48));
  const auto plain = losses(Trained(mlp_spec()).train());
  EXPECT_EQ(losses(Trained(mlp_spec({{"activation_checkpointing", Json::object()}})).train()), plain);
}
}  // namespace
}  // namespace optrush::testing
