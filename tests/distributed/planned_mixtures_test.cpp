// `optrush plan-mesh` of mixtures of experts against a step: memory against a forecast, which runs each
// operator on sizes, and bytes against counts of the ranks.
#include <gtest/gtest.h>

#include "mesh_plan/mesh_plan.h"
#include "mesh_plan/script.h"
#include "mesh_runs.h"
#include "spec/spec_json.h"
#include "worker/predict.h"

namespace optrush::testing {
namespace {
using namespace mesh_plan;

StageShare first_stage(const ParallelConfig& mix, const TrainingProblem& problem) {
  return stages_of(mix, DecoderWork(problem.model), real(problem.seq_len)).front();
}

RunSpec spec_of_plan(const ParallelConfig& mix, const TrainingProblem& problem, const Stack& with) {
  RunSpec spec = small_spec(mix.devices(), strategies_of(mix, problem));
  spec.model = validate_model("llama", to_json(problem.model), "test");
  spec.plugins.insert(spec.plugins.end(), with.begin(), with.end());
  spec.train.dtype = "fp32";
  spec.train.seq_len = problem.seq_len;
  spec.train.micro_batch = mix.micro_batch;
  spec.train.accumulation = mix.accumulation;
  return spec;
}

LlamaSpec planned_mixture(int64_t shared_ffn_dim) {
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
      {.tp = 2, .ep = 4, .micro_batch = 4, .recompute = Recompute::every_second},
      {.cp = 2, .micro_batch = 2},
      {.cp = 4, .micro_batch = 2, .accumulation = 2},
      {.cp = 2, .ep = 2, .micro_batch = 2},
      {.cp = 2, .tp = 2, .ep = 2, .micro_batch = 2, .recompute = Recompute::full},
      {.dp = 2, .cp = 2, .stage = 3, .shard_ranks = 4, .micro_batch = 2},
      {.pp = 2, .micro_batch = 2, .accumulation = 4},
      {.pp = 4, .micro_batch = 1, .accumulation = 8},
      {.pp = 2, .ep = 2, .micro_batch = 2, .accumulation = 2},
      {.pp = 2, .tp = 2, .micro_batch = 2, .accumulation = 4, .recompute = Recompute::full},
      {.pp = 2, .cp = 2, .ep = 2, .micro_batch = 2, .accumulation = 4}};
  for (const int64_t shared : {0, 2048})
    for (const Precision precision : {Precision::bf16, Precision::mixed})
      for (const ParallelConfig& mix : mixes) {
        const TrainingProblem problem{.model = planned_mixture(shared),
                                      .precision = precision,
                                      .seq_len = 4096,
                                      .global_batch = mix.batch_ranks() * mix.micro_batch * mix.accumulation};
        ASSERT_EQ(refusal(mix, problem), "");
        RunSpec spec = spec_of_plan(mix, problem, operators_of(mix, problem));
        spec.device = "cuda";
        std::string why_not;
        const auto found = forecast(spec, {at::kCUDA, "sm_90"}, &why_not);
        ASSERT_TRUE(found) << why_not;
        const double needed = found->memory.peak - *found->memory.cublas_workspaces;
        EXPECT_NEAR(memory_of(mix, problem).total() / needed, 1, 0.05)
            << to_string(precision) << " " << mesh_text(mix) << ", " << sharding_text(mix) << ", recomputed "
            << to_string(mix.recompute) << ", shared " << shared;
      }
}

double planned_bytes(const ParallelConfig& mix, const TrainingProblem& problem,
                     const std::string& dimension) {
  double bytes = 0;
  for (const MixTraffic& traffic :
       traffic_of(mix, problem, first_stage(mix, problem), hardware_preset("h100")))
    if (traffic.dimension == dimension) bytes += traffic.bytes;
  return bytes;
}

/// The bytes sent in a group: "tp", or all collectives of data parallelism.
double counted_bytes(const Json& result, const std::string& group, const std::string& collective = "") {
  double bytes = 0;
  for (const Json& row : result.at("collectives")) {
    const std::string name = row.at("name");
    if (name == "bookkeeping" || (!collective.empty() && name != collective)) continue;
    if (row.at("group") == group) bytes += row.at("sent_bytes").get<double>();
  }
  return bytes;
}

void expect_counted_volume(const ParallelConfig& mix, Precision precision) {
  const TrainingProblem problem{.model = {.vocab_size = 96,
                                          .dim = 128,
                                          .n_layers = 4,
                                          .n_heads = 4,
                                          .n_kv_heads = 4,
                                          .ffn_dim = 64,
                                          .n_experts = 4,
                                          .experts_per_token = 4,  // each expert has the same number of rows
                                          .expert_ffn_dim = 64,
                                          .shared_expert_ffn_dim = 64},
                                .precision = precision,
                                .seq_len = 128,
                                .global_batch = mix.batch_ranks() * mix.micro_batch * mix.accumulation};
  ASSERT_EQ(refusal(mix, problem), "");
  RunSpec spec =
      spec_of_plan(mix, problem, precision == Precision::mixed ? Stack{use("mixed_precision")} : Stack());
  spec.train.warmup = spec.train.steps = 1;  // every step sends the same bytes
  const Json result = train_on(pool(), {.spec = spec}).result;
  SCOPED_TRACE(to_string(precision) + " " + mesh_text(mix) + ": " + result.at("collectives").dump());
  const auto expect_near = [&](double counted, const std::string& dimension) {
    const double planned = planned_bytes(mix, problem, dimension);
    EXPECT_NEAR(counted, planned, 0.01 * planned) << dimension;
  };
  expect_near(counted_bytes(result, "ep", "all_to_all"), "ep");
  expect_near(counted_bytes(result, "tp"), "tp");
  expect_near(counted_bytes(result, "cp", "send"), "cp");
  expect_near(counted_bytes(result, "pp"), "pp");
  if (mix.replicas() == 1) return;
  double gradients = -counted_bytes(result, "tp", "all_reduce") - counted_bytes(result, "pp", "all_reduce");
  for (const Json& row : result.at("collectives"))
    if (row.at("name") == "all_reduce") gradients += row.at("sent_bytes").get<double>();
  expect_near(gradients, "dp");
}

TEST(PlannedMixtures, PlannedVolumeMatchesCountedBytes) {
  const std::vector<ParallelConfig> mixes = {
      {.ep = 2, .micro_batch = 2},
      {.dp = 2, .ep = 2, .micro_batch = 2, .accumulation = 2},
      {.tp = 2, .micro_batch = 4},
      {.tp = 2, .ep = 2, .micro_batch = 2, .accumulation = 2},
      {.dp = 2, .tp = 2, .ep = 2, .micro_batch = 4},
      {.cp = 2, .micro_batch = 2},
      {.cp = 4, .ep = 2, .micro_batch = 1, .accumulation = 2},
      {.cp = 2, .tp = 2, .ep = 2, .micro_batch = 4},
      {.pp = 2, .micro_batch = 2, .accumulation = 2},
      {.pp = 2, .micro_batch = 1, .accumulation = 4, .chunks = 2},
      {.pp = 2, .cp = 2, .ep = 2, .micro_batch = 1, .accumulation = 2},
      {.pp = 2, .tp = 2, .ep = 2, .micro_batch = 2, .accumulation = 2}};
  for (const ParallelConfig& mix : mixes) {
    expect_counted_volume(mix, Precision::fp32);
    if (mix.tp > 1 || mix.cp > 1) expect_counted_volume(mix, Precision::mixed);
  }
}
}  // namespace
}  // namespace optrush::testing
