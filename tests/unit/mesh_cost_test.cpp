// Costs of a mesh by formula: parameters, FLOPs, bytes sent, memory, time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "mesh_plan/mesh_plan.h"
#include "mesh_plan/tables.h"
#include "mesh_plan_fixture.h"

namespace optrush::mesh_plan {
namespace {

/// Bytes that a rank with all blocks sends for a purpose.
double sent(const ParallelConfig& mix, const TrainingProblem& problem, const std::string& what) {
  const DecoderWork work(problem.model);
  const StageShare whole{.blocks = work.blocks, .embedding = true, .head = true};
  double bytes = 0;
  for (const MixTraffic& traffic : traffic_of(mix, problem, whole, hardware_preset("h100")))
    if (traffic.what == what) bytes += traffic.bytes;
  return bytes;
}

TEST(DecoderWork, HasThePublishedNumbersOfParameters) {
  const auto parameters = [](const char* model) { return DecoderWork(llama_preset(model)).parameters(); };
  EXPECT_EQ(parameters("llama-3.2-1b"), 1'235'814'400);
  EXPECT_EQ(parameters("llama-3.2-3b"), 3'212'749'824);
  EXPECT_EQ(parameters("llama-3.1-8b"), 8'030'261'248);
  EXPECT_EQ(parameters("llama-3.1-70b"), 70'553'706'496);
  EXPECT_EQ(parameters("olmo-1b"), 1'176'764'416);
}

TEST(DecoderWork, CountsTheExpertsThatATokenPasses) {
  const DecoderWork mixtral(mixtral_8x7b());
  EXPECT_EQ(mixtral.parameters(), 46'702'792'704);
  // 12.9e9 active parameters (arXiv:2401.04088). The embedding has no product.
  EXPECT_NEAR(mixtral.mfu_flops(0) / 6 + mixtral.embedding, 12.9e9, 0.05e9);
  LlamaSpec qwen = {.vocab_size = 151936,
                    .dim = 2048,
                    .n_layers = 24,
                    .n_heads = 16,
                    .n_kv_heads = 16,
                    .attention_bias = AttentionBias::qkv,
                    .n_experts = 60,
                    .experts_per_token = 4,
                    .expert_ffn_dim = 1408,
                    .shared_expert_ffn_dim = 5632,
                    .tie_embeddings = false};
  EXPECT_NEAR(DecoderWork(qwen).parameters(), 14.3e9,
              0.05e9);  // Qwen1.5-MoE-A2.7B
  qwen.dense_layers = {0};
  EXPECT_LT(DecoderWork(qwen).parameters(), 14.3e9);
}

// The published figure for a token at 8,192 positions: 57.91 GFLOP, counting every score.
TEST(DecoderWork, CountsFlopsAsTheMfuDoes) {
  EXPECT_NEAR(DecoderWork(llama_preset("llama-3.1-8b")).mfu_flops(8192), 57.91e9, 0.01e9);
}

// docs/plugins/shipped/fsdp.md: 2 Psi, (k + 1) Psi and 3 k Psi, times (N - 1) / N; in fp32 every Psi is the
// same.
TEST(Volumes, ReplicasMatchTheFormulas) {
  TrainingProblem problem = problem_of("llama-3.1-8b");
  problem.precision = Precision::fp32;
  const double psi = 4 * DecoderWork(problem.model).parameters(), each = psi * 7 / 8;
  const auto all = [&](int64_t stage) {
    const ParallelConfig mix{
        .dp = 8, .stage = stage, .shard_ranks = stage > 0 ? 8 : 1, .micro_batch = 2, .accumulation = 4};
    return sent(mix, problem, "gradients") + sent(mix, problem, "parameters");
  };
  EXPECT_DOUBLE_EQ(all(0), 2 * each);
  EXPECT_DOUBLE_EQ(all(1), 2 * each);
  EXPECT_DOUBLE_EQ(all(2), (4 + 1) * each);
  EXPECT_DOUBLE_EQ(all(3), 3 * 4 * each);
}

TEST(Volumes, HybridShardsMatchTheFormulas) {
  TrainingProblem problem = problem_of("llama-3.1-8b");
  problem.precision = Precision::fp32;
  const double psi = 4 * DecoderWork(problem.model).parameters();
  const ParallelConfig mix{.dp = 64, .stage = 3, .shard_ranks = 8};
  EXPECT_DOUBLE_EQ(sent(mix, problem, "parameters"), 2 * psi * 7 / 8);
  EXPECT_DOUBLE_EQ(sent(mix, problem, "gradients"), psi * 7 / 8);
  EXPECT_DOUBLE_EQ(sent(mix, problem, "pieces"), 2 * psi / 8 * 7 / 8);
}

// The numbers are from a run of two ranks over Gloo. The tied matrix is gathered for the embedding and for
// the head.
TEST(Volumes, ATiedMatrixIsGatheredTwice) {
  TrainingProblem problem = problem_of("tiny", 8);
  problem.precision = Precision::fp32;
  const ParallelConfig mix{.dp = 2, .stage = 3, .shard_ranks = 2, .micro_batch = 4};
  EXPECT_EQ(sent(mix, problem, "parameters"), 12'133'376) << "as counted in a run";
  EXPECT_EQ(sent(mix, problem, "gradients"), 5'935'616);
}

// Rows go to their experts and back, in the forward and the backward. The gradient of an expert is summed
// over the ranks that hold it.
TEST(Volumes, ExpertsMatchTheFormulas) {
  TrainingProblem problem{.model = mixtral_8x7b(), .precision = Precision::fp32};
  const DecoderWork work(problem.model);
  const ParallelConfig mix{.dp = 2, .ep = 4, .micro_batch = 2, .accumulation = 16};
  EXPECT_DOUBLE_EQ(sent(mix, problem, "rows"), 16.0 * 32 * 4 * (2 * 8192 * 2 * 4096) * 4 * 3 / 4);
  const double experts = 32 * work.experts / 4 * 4, others = (work.parameters() - 32 * work.experts) * 4;
  EXPECT_DOUBLE_EQ(sent(mix, problem, "gradients"), 2 * (others * 7 / 8 + experts / 2));
}

TEST(Volumes, TensorContextAndPipelineParallelismMatchTheFormulas) {
  const TrainingProblem problem = problem_of("llama-3.1-8b");
  const DecoderWork work(problem.model);
  const double stream = 2 * 8192 * work.width * 2;  // two sequences in bf16
  const ParallelConfig cut{.tp = 4, .micro_batch = 2, .accumulation = 32};
  EXPECT_DOUBLE_EQ(sent(cut, problem, "sums"), 32 * (4 * 32 + 2) * 2 * 0.75 * stream);
  ParallelConfig again = cut;
  again.recompute = Recompute::full;
  EXPECT_DOUBLE_EQ(sent(again, problem, "sums"), 32 * (6 * 32 + 2) * 2 * 0.75 * stream);
  const ParallelConfig parts{.cp = 4, .micro_batch = 2, .accumulation = 32};
  const double keys = 2 * 2.0 * 8192 / 4 * 1024 * 2;  // keys and values of a part
  EXPECT_DOUBLE_EQ(sent(parts, problem, "keys"), 32.0 * 32 * 3 * (2 + 2) * keys) << "gradients in fp32";
  const auto boundaries = [&](int64_t pp, int64_t chunks) {
    return sent({.pp = pp, .micro_batch = 2, .accumulation = 32, .chunks = chunks}, problem, "boundaries");
  };
  EXPECT_DOUBLE_EQ(boundaries(4, 1), 32 * 2 * stream);
  EXPECT_DOUBLE_EQ(boundaries(4, 2), 32 * 4 * stream);
  EXPECT_DOUBLE_EQ(boundaries(2, 1), 32 * stream);
  EXPECT_DOUBLE_EQ(boundaries(2, 2), 32 * 3 * stream);
}

TEST(Rings, UseTheLinksOfTheirRanksInANode) {
  const Hardware h100 = hardware_preset("h100");
  EXPECT_FALSE(ring_of(h100, 1, 8).over_network);
  EXPECT_DOUBLE_EQ(ring_of(h100, 1, 8).bandwidth, h100.node.bandwidth);
  EXPECT_DOUBLE_EQ(ring_of(h100, 8, 16).bandwidth, h100.network.bandwidth) << "one rank per node";
  EXPECT_DOUBLE_EQ(ring_of(h100, 2, 16).bandwidth, 4 * h100.network.bandwidth);
  EXPECT_DOUBLE_EQ(ring_of(h100, 1, 16).bandwidth, h100.node.bandwidth) << "eight links carry more";
  EXPECT_NEAR(ring_of(h100, 1, 16).latency, 14 * 1.9e-6 + 4e-6, 1e-12);
}

// 16 bytes per parameter, 18 with accumulation (docs/plugins/shipped). A shard has a share of them.
TEST(ConfigMemory, StatesFallWithTheStage) {
  const TrainingProblem problem = problem_of("llama-3.2-1b");
  const double parameters = DecoderWork(problem.model).parameters();
  const auto states = [&](const ParallelConfig& mix) {
    const ConfigMemory memory = memory_of(mix, problem);
    return (memory.parameters + memory.gradients + memory.optimizer) / parameters;
  };
  EXPECT_NEAR(states({.dp = 64}), 16, 1e-9);
  EXPECT_NEAR(states({.dp = 8, .accumulation = 8}), 18, 1e-9);
  double before = states({.dp = 64});
  for (int64_t stage = 1; stage <= 3; ++stage) {
    const double now = states({.dp = 64, .stage = stage, .shard_ranks = 64});
    EXPECT_LT(now, before) << stage;
    before = now;
  }
}

// Forecasts in GB by `optrush run --dry-run --as-gpu 1000`, which runs each operator on sizes. Llama 3.2 1B
// at 2 x 4096 tokens with fused operators.
TEST(ConfigMemory, AgreesWithForecastsOfAStep) {
  struct Case {
    Precision precision;
    ParallelConfig mix;
    double forecast;
  };
  const std::vector<Case> cases = {
      {Precision::bf16, {.micro_batch = 2}, 29.983},
      {Precision::bf16, {.micro_batch = 2, .recompute = Recompute::full}, 20.647},
      {Precision::bf16, {.dp = 4, .micro_batch = 2}, 32.455},
      {Precision::bf16, {.dp = 4, .stage = 1, .shard_ranks = 4, .micro_batch = 2}, 19.479},
      {Precision::bf16, {.dp = 4, .stage = 2, .shard_ranks = 4, .micro_batch = 2}, 19.479},
      {Precision::bf16, {.dp = 4, .stage = 3, .shard_ranks = 4, .micro_batch = 2}, 17.532},
      {Precision::bf16, {.dp = 4, .stage = 3, .shard_ranks = 4, .micro_batch = 2, .accumulation = 2}, 20.066},
      {Precision::mixed, {.micro_batch = 2}, 31.090},
      {Precision::mixed, {.micro_batch = 2, .accumulation = 2}, 36.038},
      {Precision::mixed, {.micro_batch = 4}, 42.253},
      {Precision::mixed, {.micro_batch = 2, .recompute = Recompute::every_second}, 26.115},
      {Precision::mixed, {.dp = 4, .micro_batch = 2}, 36.034},
      {Precision::mixed, {.dp = 4, .stage = 2, .shard_ranks = 4, .micro_batch = 2}, 21.019},
      {Precision::mixed, {.dp = 4, .stage = 3, .shard_ranks = 4, .micro_batch = 2}, 19.072},
  };
  for (const auto& [precision, mix, forecast] : cases) {
    TrainingProblem problem = problem_of("llama-3.2-1b", mix.dp * mix.micro_batch * mix.accumulation);
    problem.precision = precision;
    problem.seq_len = 4096;
    EXPECT_NEAR(memory_of(mix, problem).total() / 1e9 / forecast, 1, 0.015)
        << to_string(precision) << " " << mesh_text(mix) << ", " << sharding_text(mix);
  }
}

// The same for Llama 3.1 8B at 8192 tokens, whose gradients are added up in fp32 over micro-batches.
TEST(ConfigMemory, AgreesWithForecastsOfAStepThatAccumulates) {
  const std::vector<std::pair<ParallelConfig, double>> cases = {
      {{.dp = 8, .stage = 2, .shard_ranks = 8, .accumulation = 8}, 78.559},
      {{.dp = 8, .stage = 3, .shard_ranks = 8, .accumulation = 8}, 63.918},
      {{.dp = 4, .cp = 2, .stage = 2, .shard_ranks = 8, .accumulation = 16}, 60.153},
      {{.dp = 4, .cp = 2, .stage = 3, .shard_ranks = 8, .accumulation = 16}, 45.579},
      {{.dp = 2, .cp = 4, .stage = 2, .shard_ranks = 8, .accumulation = 32}, 50.985}};
  for (const auto& [mix, forecast] : cases)
    EXPECT_NEAR(memory_of(mix, problem_of("llama-3.1-8b")).total() / 1e9 / forecast, 1, 0.005)
        << mesh_text(mix) << ", " << sharding_text(mix);
}

TEST(ConfigMemory, ExpertStatesFallWithExpertRanks) {
  const TrainingProblem problem{.model = mixtral_8x7b(), .global_batch = 64};
  const DecoderWork work(problem.model);
  const auto states = [&](const ParallelConfig& mix) {
    const ConfigMemory memory = memory_of(mix, problem);
    return memory.parameters + memory.gradients + memory.optimizer;
  };
  const double apart = 32 * work.experts * 7 / 8 * 16;  // bytes on other ranks: seven eighths
  EXPECT_NEAR(states({.dp = 64}) - states({.dp = 8, .ep = 8}), apart, 1e-6 * apart);
}

TEST(ConfigMemory, ExpertParametersFallWithTensorRanks) {
  const TrainingProblem problem{.model = mixtral_8x7b(), .global_batch = 64};
  const DecoderWork work(problem.model);
  const StageShare whole{.blocks = 32, .embedding = true, .head = true};
  const LocalParameters cut = local_parameters({.tp = 4, .ep = 2}, work, whole);
  EXPECT_DOUBLE_EQ(cut.experts, 32 * work.experts / 8);
  EXPECT_DOUBLE_EQ(4 * (cut.total - cut.experts),
                   work.parameters() - 32 * work.experts +
                       3 * (32 * (work.routers + work.block_vectors) + work.final_norm))
      << "each rank has whole routers and norms";
  EXPECT_DOUBLE_EQ(4 * cut.block_products, work.block_products() / 2 + 3 * work.routers);
}

TEST(ConfigMemory, FallsWithCutsAndRecomputation) {
  const TrainingProblem problem = problem_of("llama-3.1-8b");
  const auto total = [&](const ParallelConfig& mix) { return memory_of(mix, problem).total(); };
  const auto activations = [&](const ParallelConfig& mix) { return memory_of(mix, problem).activations; };
  EXPECT_LT(total({.dp = 8, .tp = 2, .accumulation = 8}), total({.dp = 8, .accumulation = 8}));
  EXPECT_LT(total({.pp = 2, .dp = 8, .accumulation = 8}), total({.dp = 8, .accumulation = 8}));
  EXPECT_LT(activations({.dp = 8, .cp = 2, .accumulation = 8}), activations({.dp = 8, .accumulation = 8}));
  const ParallelConfig plain{.dp = 8, .accumulation = 8};
  ParallelConfig again = plain;
  again.recompute = Recompute::every_second;
  ParallelConfig full = plain;
  full.recompute = Recompute::full;
  EXPECT_LT(activations(again), activations(plain));
  EXPECT_LT(activations(full), activations(again));
}

// Four stages with eight micro-batches wait 3 of 11 slots. Two chunks halve the wait.
TEST(ConfigCost, BubbleOfAPipelineMatchesTheFormula) {
  TrainingProblem problem = problem_of("llama-3.1-8b", 8);
  Hardware hardware = hardware_preset("h100");
  const ParallelConfig mix{.pp = 4, .accumulation = 8};
  const ConfigCost cost = cost_of(mix, problem, hardware);
  EXPECT_NEAR(cost.bubble / (cost.bubble + cost.compute), 3.0 / 11, 1e-9);
  ParallelConfig chunks = mix;
  chunks.chunks = 2;
  EXPECT_NEAR(cost_of(chunks, problem, hardware).bubble, cost.bubble / 2, 1e-9);
}

TEST(ConfigCost, StageWithTheHeadHasFewerBlocks) {
  const DecoderWork work(llama_preset("llama-3.1-8b"));
  const auto stages = stages_of({.pp = 8}, work, 8192);
  ASSERT_EQ(stages.size(), 2U);
  EXPECT_EQ(stages[0].blocks, 5);
  EXPECT_LE(stages[1].blocks, 3) << "the head costs as much as two blocks";
  EXPECT_GE(7 * stages[0].blocks + stages[1].blocks, 32);
}

TEST(ConfigCost, ExposesCommunicationThatComputationCannotHide) {
  const TrainingProblem problem = problem_of("llama-3.1-8b", 64);
  const ParallelConfig mix{.dp = 64, .stage = 3, .shard_ranks = 64};
  Hardware hardware = hardware_preset("h100");
  const double fast = cost_of(mix, problem, hardware).exposed;
  hardware.node.bandwidth /= 100;
  hardware.network.bandwidth /= 100;
  const ConfigCost slow = cost_of(mix, problem, hardware);
  EXPECT_GT(slow.exposed, 10 * fast);
  double sending = 0;
  for (const MixTraffic& traffic : slow.traffic) sending += traffic.seconds();
  EXPECT_LE(slow.exposed, sending * (1 + 1e-9));
}

// On a slow device all traffic hides behind computation, except the rows of experts and the sums at the ends
// of a step.
TEST(ConfigCost, ASharedExpertHidesHalfOfTheRows) {
  for (const int64_t shared : {0, 4096}) {
    TrainingProblem problem{.model = mixtral_8x7b(), .global_batch = 64};
    problem.model.shared_expert_ffn_dim = shared;
    Hardware hardware = hardware_preset("h100");
    hardware.flops = 1e9;
    const ConfigCost cost = cost_of({.dp = 2, .ep = 8, .accumulation = 4}, problem, hardware);
    double rows = 0, ends = 0;
    for (const MixTraffic& traffic : cost.traffic)
      (traffic.dimension == "ep" ? rows : ends) +=
          traffic.seconds() / (traffic.dimension == "ep" ? 1 : traffic.rounds);
    EXPECT_NEAR(cost.exposed, rows / (shared > 0 ? 2 : 1) + ends, 1e-9 * cost.exposed) << shared;
  }
}
}  // namespace
}  // namespace optrush::mesh_plan
