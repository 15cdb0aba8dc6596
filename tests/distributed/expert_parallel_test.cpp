// Expert parallelism on several ranks equals one process. The tests use the real trainer with every
// compatible strategy and random models and meshes. Bytes sent and held equal theory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mesh_runs.h"
#include "random_training.h"
#include "support/error_of.h"

namespace optrush::testing {
namespace {
Json mixture(int64_t experts, int64_t per_token) {
  return {{"n_experts", experts}, {"experts_per_token", per_token}, {"expert_ffn_dim", 12}, {"n_layers", 2}};
}

std::vector<std::pair<std::string, MeshOfRanks>> meshes() {
  return {
      {"all ranks", {2, 2, {experts_over(2), use("ddp")}}},
      {"four", {4, 4, {experts_over(4), use("ddp")}}},
      {"with copies", {4, 4, {experts_over(2), use("ddp")}}},
      {"fsdp, all ranks", {2, 2, {experts_over(2), use("fsdp")}}},
      {"fsdp 1", {4, 4, {experts_over(2), use("fsdp", {{"stage", 1}})}}},
      {"fsdp 2", {4, 4, {experts_over(2), use("fsdp", {{"stage", 2}})}}},
      {"fsdp 3", {4, 4, {experts_over(2), use("fsdp")}}},
      {"hybrid", {8, 8, {experts_over(2), use("fsdp", {{"shard_ranks", 2}})}}},
      {"ring", {4, 2, {experts_over(2), use("context_parallel"), use("ddp")}}},
      {"heads", {4, 2, {experts_over(2), use("context_parallel", {{"kind", "all_to_all"}}), use("fsdp")}}},
      {"pipeline", {4, 2, {experts_over(2), use("pipeline_parallel"), use("ddp")}}},
      {"pipeline with copies", {8, 4, {experts_over(2), use("pipeline_parallel"), use("fsdp")}}},
      {"zero bubble",
       {4, 2, {experts_over(2), use("pipeline_parallel", {{"schedule", "zero_bubble"}}), use("ddp")}}}};
}

/// Mixtures as classes of transformers have them.
std::vector<Json> mixtures() {
  const Json grouped = {{"scores", "sigmoid"}, {"bias", "choice"}, {"groups", 2}, {"scale", 1.5}};
  std::vector<Json> models = {
      {{"normalize_router", true}},
      {{"router", grouped}, {"shared_expert_ffn_dim", 9}, {"shared_expert_gate", false}},
      {{"activation", "relu2"}, {"shared_expert_ffn_dim", 9}, {"shared_expert_gate", false}},
      {{"router", {{"bias", "logits"}}}, {"expert_bias", true}, {"activation", "clamped_silu"}}};
  for (Json& model : models) {
    Json all = mixture(4, 2);
    all.update(model);
    model = all;
  }
  return models;
}

/// The meshes take turns in the mixtures.
TEST(ExpertParallel, EqualsOneProcessWithEveryStrategy) {
  const std::vector<Json> models = mixtures();
  size_t turn = 0;
  for (const auto& [name, mesh] : meshes()) {
    RunSpec spec = small_spec(mesh.ranks, mesh.strategy, models[turn++ % models.size()]);
    spec.train.accumulation = 2;
    SCOPED_TRACE(name + " " + spec.model.dump());
    ASSERT_NO_THROW(expect_equal_training(pool(), spec, one_process_of(spec, mesh.batch_ranks), 1e-9));
  }
}

/// Ranks have different numbers of rows, but choose the same operators.
TEST(ExpertParallel, AllRanksKeepTheSameOperatorsUnderABudget) {
  for (const double budget : {0.3, 0.6, 0.8}) {
    const PluginUse keep = use("activation_checkpointing", {{"policy", "budget"}, {"budget", budget}});
    RunSpec spec = small_spec(2, {experts_over(2), use("ddp"), keep}, mixture(4, 2));
    ASSERT_NO_THROW(expect_equal_training(pool(), spec, one_process_of(spec, 2), 1e-9));
  }
}

TEST(ExpertParallel, OptimizersAndClippingUseTheWholeModel) {
  for (const char* plugin :
       {"adafactor", "muon", "lion", "schedule_free", "clip_grad_norm", "optimizer_in_backward"})
    for (const char* data : {"ddp", "fsdp"}) {
      RunSpec spec = small_spec(4, {experts_over(2), use(data), use(plugin)}, mixture(4, 2));
      SCOPED_TRACE(std::string(plugin) + " with " + data);
      ASSERT_NO_THROW(expect_equal_training(pool(), spec, one_process_of(spec, 4), 1e-9));
    }
}

RandomTraining draw_experts(Draws& draws, uint64_t /*seed*/) {
  const int64_t size = draws.one_of<int64_t>({2, 3, 4}),
                copies = size < 4 ? draws.one_of<int64_t>({1, 2}) : 1;
  Stack plugins = {experts_over(size), some_data_parallelism(draws)};
  add_some_plugins(draws, plugins);
  if (draws.sometimes()) plugins.push_back(use("router_losses", {{"balance", 0.1}, {"z", 0.01}}));
  const int64_t experts = size * draws.one_of<int64_t>({1, 2, 3});
  const int64_t per_token = draws.one_of<int64_t>({1, 2, experts});
  Json model = {
      {"n_experts", experts},
      {"experts_per_token", per_token},
      {"expert_ffn_dim", draws.one_of<int>({0, 7, 16})},
      {"normalize_router", per_token > 1 && draws.sometimes()},  // a single weight would always be 1
      {"shared_expert_ffn_dim", draws.one_of<int>({0, 9})}};
  if (draws.sometimes()) model["dense_layers"] = {1};
  RunSpec spec = small_spec(size * copies, plugins, model);
  spec.train.accumulation = draws.one_of<int64_t>({1, 2});
  return {spec, size * copies};
}

TEST(ExpertParallel, RandomConfigurationsEqualOneProcess) {
  expect_equal_for_seeds(pool(), 14, draw_experts);
}

/// Every token passes every expert, so each rank sends the same number of rows: to the experts and back, in
/// the forward and the backward. The counts of rows are sent before.
TEST(ExpertParallel, SentBytesMatchTheory) {
  for (const int64_t copies : {1, 2}) {
    RunSpec spec = small_spec(2 * copies, {experts_over(2), use("ddp")}, mixture(4, 4));
    spec.train.accumulation = 3;
    spec.train.warmup = spec.train.steps = 1;
    const Json result = train_on(pool(), {.spec = spec}).result;
    SCOPED_TRACE(result.at("collectives").dump());
    const double calls = 3 * 2, rows = 12 * 4, bytes = calls / 2 * (4 * rows * 24 * 8 + 4 * 8);
    EXPECT_EQ(sent(result, "all_to_all"), bytes);
    EXPECT_EQ(theory(result, "all_to_all"), bytes);
    EXPECT_NEAR(sent(result, "all_reduce"), theory(result, "all_reduce"), 1);
  }
}

/// All rows that a router sends to other ranks are counted. A forecast expects equal shares.
TEST(ExpertParallel, TrafficFollowsTheRouter) {
  RunSpec spec = small_spec(2, {experts_over(2), use("ddp")}, mixture(8, 2));
  spec.train.seq_len = 96;
  spec.train.micro_batch = 4;
  const Json result = train_on(pool(), {.spec = spec}).result;
  EXPECT_NEAR(sent(result, "all_to_all"), theory(result, "all_to_all"), 0.2 * theory(result, "all_to_all"));
}

TEST(ExpertParallel, PeakIsPredicted) {
  const double attention = 2 * 24 * 24 + 2 * 24 * 12 + 4 * 24 + 2 * 24, experts = 2 * 3 * 24 * 12;
  const double gathered = 8 * (attention + experts);  // the most that fsdp gathers at once
  for (const auto& [data, copies] : {std::pair("ddp", 0.0), {"fsdp", gathered}}) {
    RunSpec spec = small_spec(4, {experts_over(2), use(data)}, mixture(4, 4));
    spec.train.micro_batch = 4;
    expect_predicted_peak(pool(), spec, copies);
  }
}

/// Parameters, gradients and optimizer states of experts fall by the number of ranks.
TEST(ExpertParallel, EachRankHoldsOnlyItsExperts) {
  const auto peak = [&](const Stack& plugins) {
    Json model = mixture(8, 1);
    model["expert_ffn_dim"] = 256;
    RunSpec spec = small_spec(2, plugins, model);
    return static_cast<double>(train_on(pool(), {.spec = spec}).peaks.front());
  };
  const double experts = 2.0 * 8 * 3 * 24 * 256 * 8, whole = peak({use("ddp")});
  // Another rank holds the values, gradients and two moments of half of the experts. This rank holds the rows
  // of an exchange.
  const double elsewhere = 4 * experts / 2;
  EXPECT_NEAR(peak({experts_over(2), use("ddp")}), whole - elsewhere, 0.03 * elsewhere);
}

TEST(ExpertParallel, SavedStateContinuesOnOtherRanks) {
  const MeshOfRanks many{4, 4, {experts_over(2), use("fsdp")}}, one{1, 1, {}},
      other{2, 2, {experts_over(2), use("ddp")}};
  expect_states_continue(pool(), {{many, one}, {one, many}, {many, other}},
                         [](const MeshOfRanks& mesh, const Stack&) {
                           return small_spec(mesh.ranks, mesh.strategy, mixture(4, 2));
                         });
}

TEST(ExpertParallel, UnsupportedModelsAndRanksAreRefused) {
  const auto refusal = [&](int64_t ranks, Stack plugins, const Json& model) {
    return refusal_of(pool(), small_spec(ranks, std::move(plugins), model));
  };
  EXPECT_THAT(refusal(2, {experts_over(2), use("ddp")}, {{"n_layers", 1}}),
              is_error("unsupported", "no mixture of experts"));
  EXPECT_THAT(refusal(2, {experts_over(2), use("ddp")}, mixture(3, 2)),
              is_error("unsupported", "3 experts", "2 ranks"));
  EXPECT_THAT(refusal(2, {experts_over(2)}, mixture(4, 2)), is_error("wrong_ranks", "ddp", "fsdp"));
}
}  // namespace
}  // namespace optrush::testing
