// What `optrush plan-mesh` says of mixtures of experts beside what a step needs: memory as a forecast has it,
// which runs each operator on sizes, and bytes as ranks count them.
#include <gtest/gtest.h>

#include "mesh_plan/mesh_plan.h"
#include "mesh_runs.h"
#include "spec/spec_json.h"
#include "worker/predict.h"

namespace optrush::testing {
namespace {
using namespace mesh_plan;

/// The strategies of a mesh, as plan-mesh means it.
Stack strategies_of(const ParallelConfig& mix) {
  Stack plugins;
  if (mix.tp > 1) plugins.push_back(use("tensor_parallel", {{"size", mix.tp}, {"sequence", true}}));
  if (mix.ep > 1) plugins.push_back(use("expert_parallel", {{"size", mix.ep}}));
  if (mix.stage > 0)
    plugins.push_back(use("fsdp", {{"stage", mix.stage}}));
  else if (mix.replicas() > 1)
    plugins.push_back(use("ddp"));
  return plugins;
}

RunSpec spec_of(const ParallelConfig& mix, const TrainingProblem& problem, const Stack& with) {
  RunSpec spec = small_spec(mix.devices(), strategies_of(mix));
  spec.model = validate_model("llama", to_json(problem.model), "test");
  spec.plugins.insert(spec.plugins.end(), with.begin(), with.end());
  spec.train.dtype = "fp32";
  spec.train.seq_len = problem.seq_len;
  spec.train.micro_batch = mix.micro_batch;
  spec.train.accumulation = mix.accumulation;
  return spec;
}

LlamaSpec mixture(int64_t shared_ffn_dim) {
  return {.vocab_size = 32000,
          .dim = 1024,
          .n_layers = 6,
          .n_heads = 16,
          .n_kv_heads = 8,
          .ffn_dim = 2048,
          .n_experts = 16,
          .experts_per_token = 4,
          .expert_ffn_dim = 768,
          .shared_expert_ffn_dim = shared_ffn_dim};
}

TEST(PlannedMixtures, MemoryAgreesWithForecastsOfAStep) {
  const std::vector<ParallelConfig> mixes = {
      {.micro_batch = 2},
      {.dp = 4, .micro_batch = 2},
      {.ep = 4, .micro_batch = 2},
      {.dp = 2, .ep = 2, .micro_batch = 2},
      {.tp = 2, .micro_batch = 2},
      {.tp = 4, .micro_batch = 2, .accumulation = 2},
      {.tp = 2, .ep = 2, .micro_batch = 2},
      {.dp = 2, .ep = 2, .stage = 3, .shard_ranks = 4, .micro_batch = 2},
      {.ep = 4, .micro_batch = 2, .recompute = Recompute::full},
      {.tp = 2, .ep = 4, .micro_batch = 4, .recompute = Recompute::every_second}};
  for (const int64_t shared : {0, 2048})
    for (const Precision precision : {Precision::bf16, Precision::mixed})
      for (const ParallelConfig& mix : mixes) {
        const TrainingProblem problem{.model = mixture(shared),
                                      .precision = precision,
                                      .seq_len = 4096,
                                      .global_batch = mix.batch_ranks() * mix.micro_batch * mix.accumulation};
        ASSERT_EQ(refusal(mix, problem), "");
        Stack with = {use("flash_attention"), use("fused_kernels"), use("fused_linear_cross_entropy")};
        if (precision == Precision::bf16) {
          with.push_back(use("bf16_weights"));
        } else {
          with.push_back(use("mixed_precision"));
          with.push_back(use("fused_adamw"));
        }
        if (mix.recompute != Recompute::none)
          with.push_back(use("activation_checkpointing",
                             {{"policy", mix.recompute == Recompute::full ? "full" : "every"}}));
        RunSpec spec = spec_of(mix, problem, with);
        spec.device = "cuda";
        std::string why_not;
        const auto found = forecast(spec, {at::kCUDA, "sm_90"}, &why_not);
        ASSERT_TRUE(found) << why_not;
        EXPECT_NEAR(memory_of(mix, problem).total() / static_cast<double>(found->peak_bytes), 1, 0.05)
            << to_string(precision) << " " << mesh_text(mix) << ", " << sharding_text(mix) << ", recomputed "
            << to_string(mix.recompute) << ", shared " << shared;
      }
}

RankPool& pool() {
  static RankPool pool(8);
  return pool;
}

double planned_bytes(const ParallelConfig& mix, const TrainingProblem& problem,
                     const std::string& dimension) {
  const StageShare whole{.blocks = real(problem.model.n_layers), .embedding = true, .head = true};
  double bytes = 0;
  for (const MixTraffic& traffic : traffic_of(mix, problem, whole, hardware_preset("h100")))
    if (traffic.dimension == dimension) bytes += traffic.bytes;
  return bytes;
}

/// Of a group, by name: "tp", or all that is sent by collectives of data parallelism.
double counted_bytes(const Json& result, const std::string& group, const std::string& collective = "") {
  double bytes = 0;
  for (const Json& row : result.at("collectives")) {
    const std::string name = row.at("name");
    if (name == "bookkeeping" || (!collective.empty() && name != collective)) continue;
    if (row.at("group") == group) bytes += row.at("sent_bytes").get<double>();
  }
  return bytes;
}

TEST(PlannedMixtures, VolumeIsThatWhichRanksCount) {
  const LlamaSpec model{.vocab_size = 96,
                        .dim = 128,
                        .n_layers = 4,
                        .n_heads = 4,
                        .n_kv_heads = 4,
                        .ffn_dim = 64,
                        .n_experts = 4,
                        .experts_per_token = 4,  // each expert has as many rows
                        .expert_ffn_dim = 64,
                        .shared_expert_ffn_dim = 64};
  const std::vector<ParallelConfig> mixes = {{.ep = 2, .micro_batch = 2},
                                             {.dp = 2, .ep = 2, .micro_batch = 2, .accumulation = 2},
                                             {.tp = 2, .micro_batch = 4},
                                             {.tp = 2, .ep = 2, .micro_batch = 2, .accumulation = 2},
                                             {.dp = 2, .tp = 2, .ep = 2, .micro_batch = 4}};
  for (const ParallelConfig& mix : mixes) {
    const TrainingProblem problem{.model = model,
                                  .precision = Precision::fp32,
                                  .seq_len = 128,
                                  .global_batch = mix.batch_ranks() * mix.micro_batch * mix.accumulation};
    ASSERT_EQ(refusal(mix, problem), "");
    RunSpec spec = spec_of(mix, problem, {});
    spec.train.steps = 2;
    const Json result = train_on(pool(), {.spec = spec}).result;
    SCOPED_TRACE(mesh_text(mix) + ": " + result.at("collectives").dump());
    const auto expect_near = [&](double counted, const std::string& dimension) {
      const double planned = planned_bytes(mix, problem, dimension);
      EXPECT_NEAR(counted, planned, 0.01 * planned) << dimension;
    };
    expect_near(counted_bytes(result, "ep", "all_to_all"), "ep");
    expect_near(counted_bytes(result, "tp"), "tp");
    if (mix.replicas() == 1) continue;
    double gradients = -counted_bytes(result, "tp", "all_reduce");
    for (const Json& row : result.at("collectives"))
      if (row.at("name") == "all_reduce") gradients += row.at("sent_bytes").get<double>();
    expect_near(gradients, "dp");
  }
}
}  // namespace
}  // namespace optrush::testing

int main(int argc, char** argv) {
  return optrush::testing::main_of_ranks(argc, argv, optrush::testing::training_jobs());
}
