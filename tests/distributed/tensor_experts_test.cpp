// Mixtures of experts under tensor parallelism equal one process. Every rank of tp has a cut of each expert
// of its rank of ep, and routes the same tokens. Bytes sent and held equal theory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mesh_runs.h"
#include "random_training.h"
#include "support/error_of.h"

namespace optrush::testing {
namespace {
PluginUse cuts(int64_t size, bool sequence = false, int64_t overlap = 1) {
  return use("tensor_parallel", {{"size", size}, {"sequence", sequence}, {"overlap", overlap}});
}
Json odd_mixture(const Json& more = Json::object()) {
  Json model = {{"n_layers", 2}, {"n_experts", 4}, {"experts_per_token", 2}, {"expert_ffn_dim", 13}};
  model.update(more);
  return model;
}

std::vector<std::pair<std::string, MeshOfRanks>> meshes_of_cuts() {
  const Stack both = {cuts(2), experts_over(2)};
  const auto with = [&](const char* name, Stack stack = {}, Json options = Json::object()) {
    if (stack.empty()) stack = both;
    stack.push_back(use(name, std::move(options)));
    return stack;
  };
  return {{"alone", {2, 1, {cuts(2)}}},
          {"shared key heads", {4, 1, {cuts(4)}}},
          {"sequence", {2, 1, {cuts(2, true)}}},
          {"overlap", {2, 1, {cuts(2, false, 3)}}},
          {"ddp", {4, 2, with("ddp", {cuts(2)})}},
          {"fsdp 1", {4, 2, with("fsdp", {cuts(2, true)}, {{"stage", 1}})}},
          {"fsdp 2", {4, 2, with("fsdp", {cuts(2)}, {{"stage", 2}})}},
          {"fsdp 3", {4, 2, with("fsdp", {cuts(2)})}},
          {"ring", {4, 1, {cuts(2), use("context_parallel"), use("ddp")}}},
          {"pipeline", {4, 1, {cuts(2, true), use("pipeline_parallel")}}},
          {"experts, ddp", {4, 2, with("ddp")}},
          {"experts, fsdp", {4, 2, with("fsdp")}},
          {"experts, sequence", {4, 2, with("ddp", {cuts(2, true), experts_over(2)})}},
          {"experts with copies", {8, 4, with("fsdp", {}, {{"stage", 2}})}},
          {"experts, ring", {8, 2, with("ddp", {cuts(2), experts_over(2), use("context_parallel")})}},
          {"experts, pipeline", {8, 2, with("ddp", {cuts(2), experts_over(2), use("pipeline_parallel")})}}};
}

TEST(TensorExperts, EqualOneProcessOnEveryMesh) {
  const Json sigmoid = {{"scores", "sigmoid"}, {"bias", "choice"}, {"scale", 1.5}};
  for (const Json& model :
       {Json{{"router", {{"bias", "logits"}}}},
        Json{{"shared_expert_ffn_dim", 9}, {"shared_expert_gate", false}, {"router", sigmoid}}})
    for (const auto& [name, mesh] : meshes_of_cuts()) {
      RunSpec spec = small_spec(mesh.ranks, mesh.strategy, odd_mixture(model));
      spec.train.accumulation = 2;
      SCOPED_TRACE(name + " " + model.dump());
      ASSERT_NO_THROW(expect_equal_training(pool(), spec, one_process_of(spec, mesh.batch_ranks), 1e-9));
    }
}

RandomTraining draw_cut_experts(Draws& draws, uint64_t /*seed*/) {
  const int64_t size = draws.one_of<int64_t>({2, 2, 3, 4}),
                ep = size == 2 ? draws.one_of<int64_t>({1, 2}) : 1,
                copies = size * ep <= 4 ? draws.one_of<int64_t>({1, 2}) : 1;
  Stack plugins = {cuts(size, draws.sometimes())};
  if (ep > 1) plugins.push_back(experts_over(ep));
  if (ep * copies > 1) plugins.push_back(some_data_parallelism(draws));
  add_some_plugins(draws, plugins);
  if (draws.sometimes()) plugins.push_back(use("router_losses", {{"balance", 0.1}, {"z", 0.01}}));
  const int64_t heads = size * draws.one_of<int64_t>({1, 2});
  const int64_t experts = ep * draws.one_of<int64_t>({1, 2, 3}),
                per_token = draws.one_of<int64_t>({1, experts});
  Json model = {
      {"dim", heads * 6},
      {"n_heads", heads},
      {"n_kv_heads", draws.one_of<int64_t>({1, size, heads})},
      {"n_experts", experts},
      {"experts_per_token", per_token},
      {"expert_ffn_dim", draws.one_of<int>({7, 16, 29})},
      {"normalize_router", per_token > 1 && draws.sometimes()},  // a single weight would always be 1
      {"shared_expert_ffn_dim", draws.one_of<int>({0, 9})}};
  if (draws.sometimes()) model["dense_layers"] = {1};
  RunSpec spec = small_spec(size * ep * copies, plugins, model);
  spec.train.accumulation = draws.one_of<int64_t>({1, 2});
  return {spec, ep * copies};
}

TEST(TensorExperts, RandomConfigurationsEqualOneProcess) {
  expect_equal_for_seeds(pool(), 14, draw_cut_experts);
}

TEST(TensorExperts, OptimizersAndRouterLossesUseTheWholeModel) {
  for (const char* plugin : {"adafactor", "muon", "schedule_free", "clip_grad_norm", "router_losses"}) {
    const RunSpec spec = small_spec(4, {cuts(2), experts_over(2), use("fsdp"), use(plugin)}, odd_mixture());
    SCOPED_TRACE(plugin);
    ASSERT_NO_THROW(expect_equal_training(pool(), spec, one_process_of(spec, 2), 1e-9));
  }
}

/// A mixture is summed once after its experts, like an MLP. Whole rows are sent to the ranks of ep.
TEST(TensorExperts, SentBytesMatchTheory) {
  for (const bool sequence : {false, true})
    for (const int64_t shared : {0, 16}) {
      RunSpec spec = small_spec(4, {cuts(2, sequence), experts_over(2), use("ddp")},
                                odd_mixture({{"experts_per_token", 4}, {"shared_expert_ffn_dim", shared}}));
      spec.train.accumulation = 3;
      spec.train.warmup = spec.train.steps = 1;
      const Json result = train_on(pool(), {.spec = spec}).result;
      SCOPED_TRACE(result.at("collectives").dump());
      const double rows = 12 * 4, sums = 4 * 2 + 2, activations = 3.0 * 12 * 24 * 8;
      EXPECT_EQ(sent(result, "all_to_all"), 3.0 * 2 / 2 * (4 * rows * 24 * 8 + 4 * 8));
      EXPECT_EQ(theory(result, "all_to_all"), sent(result, "all_to_all"));
      // Gradients of parameters that every rank of tp holds whole: routers, and norms if the sequence is cut.
      const double routers = 2.0 * (4 + (shared > 0 ? 1 : 0)) * 24 * 8, norms = sequence ? 5 * 24 * 8 : 0;
      EXPECT_NEAR(sent(result, "all_reduce") - theory(result, "all_reduce"), routers + norms, 1);
      EXPECT_NEAR(sent(result, "all_gather"), sequence ? sums * activations / 2 : 0, 1);
      EXPECT_NEAR(theory(result, "all_gather"), sent(result, "all_gather"), 1);
      EXPECT_NEAR(theory(result, "reduce_scatter"), sent(result, "reduce_scatter"), 1);
    }
}

TEST(TensorExperts, PeakIsPredicted) {
  for (const bool sequence : {false, true})
    for (const int64_t shared : {0, 24}) {
      RunSpec spec = small_spec(4, {cuts(2, sequence), experts_over(2), use("ddp")},
                                odd_mixture({{"experts_per_token", 4}, {"shared_expert_ffn_dim", shared}}));
      spec.train.micro_batch = 4;
      expect_predicted_peak(pool(), spec);
    }
}

/// Parameters, gradients and moments of the experts fall by the ranks of tp and ep.
TEST(TensorExperts, EachRankHoldsASliceOfItsExperts) {
  const auto peak = [](int64_t ranks, Stack plugins) {
    plugins.push_back(use("fused_adamw"));
    RunSpec spec =
        small_spec(ranks, std::move(plugins),
                   odd_mixture({{"n_experts", 8}, {"experts_per_token", 1}, {"expert_ffn_dim", 512}}));
    spec.train.seq_len = 4;
    spec.train.warmup = spec.train.steps = 1;
    return static_cast<double>(train_on(pool(), {.spec = spec}).peaks.front());
  };
  const double experts = 4 * 2.0 * 8 * 3 * 24 * 512 * 8;  // value, gradient and two moments
  const double others = peak(1, {}) - experts;
  EXPECT_NEAR(peak(2, {cuts(2)}), experts / 2 + others / 2, 0.02 * experts);
  EXPECT_NEAR(peak(4, {cuts(2), experts_over(2), use("ddp")}), experts / 4 + others / 2, 0.02 * experts);
}

TEST(TensorExperts, SavedStateContinuesOnOtherRanks) {
  const MeshOfRanks both{4, 2, {cuts(2), experts_over(2), use("fsdp")}}, one{1, 1, {}}, cut{4, 1, {cuts(4)}},
      apart{2, 2, {experts_over(2), use("ddp")}};
  expect_states_continue(
      pool(), {{both, one}, {one, both}, {both, apart}, {cut, both}},
      [](const MeshOfRanks& mesh, const Stack&) {
        return small_spec(mesh.ranks, mesh.strategy, odd_mixture({{"shared_expert_ffn_dim", 9}}));
      });
}

TEST(TensorExperts, ShapesThatCannotBeCutAreRefused) {
  EXPECT_THAT(refusal_of(pool(), small_spec(2, {cuts(2)}, odd_mixture({{"expert_ffn_dim", 1}}))),
              is_error("unsupported", "experts.0.gate_proj", "1 parts for 2 ranks"));
  EXPECT_THAT(refusal_of(pool(), small_spec(2, {cuts(2)}, odd_mixture({{"shared_expert_ffn_dim", 1}}))),
              is_error("unsupported", "shared_expert", "1 parts for 2 ranks"));
  EXPECT_THAT(refusal_of(pool(), small_spec(4, {cuts(2), experts_over(2)}, odd_mixture())),
              is_error("wrong_ranks", "ddp", "fsdp"));
}
}  // namespace
}  // namespace optrush::testing
