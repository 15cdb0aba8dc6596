// Muon on several ranks trains as on one process. Parts are gathered into whole matrices, and copies share
// the work. Bytes sent equal theory.
#include <gtest/gtest.h>

#include "mesh_runs.h"

namespace optrush::testing {
namespace {
PluginUse cut_matrices(int64_t size) { return use("tensor_parallel", {{"size", size}}); }

/// Three layers, so the matrices of most shapes do not fill a round.
RunSpec muon_spec(int64_t ranks, Stack stack, Json muon = Json::object()) {
  stack.push_back(use("muon", std::move(muon)));
  RunSpec spec = small_spec(ranks, std::move(stack));
  spec.train.weight_decay = 0.1;
  spec.train.steps = 3;
  return spec;
}

RunSpec muon_spec_on(const MeshOfRanks& mesh, Stack on_top, Json muon = Json::object()) {
  on_top.insert(on_top.begin(), mesh.strategy.begin(), mesh.strategy.end());
  return muon_spec(mesh.ranks, std::move(on_top), std::move(muon));
}

TEST(MuonOnRanks, EqualsOneProcess) {
  const PluginUse ddp = use("ddp"), fsdp = use("fsdp");
  struct Case {
    MeshOfRanks mesh;
    Json muon = Json::object();
  };
  for (const auto& [mesh, muon] : std::vector<Case>{
           {{4, 4, {ddp}}},
           {{3, 3, {ddp}}, {{"distributed", false}, {"nesterov", false}}},
           {{4, 4, {fsdp}}},
           {{3, 3, {use("fsdp", {{"stage", 1}})}}, {{"scale", "spectral"}}},
           {{8, 8, {use("fsdp", {{"shard_ranks", 4}})}}},  // some ranks have no part of a matrix
           {{2, 2, {use("fsdp", {{"offload", true}})}}},
           {{2, 1, {cut_matrices(2)}}},
           {{4, 2, {cut_matrices(2), ddp}}},
           {{4, 2, {cut_matrices(2), fsdp}}},
           {{4, 2, {use("context_parallel", {{"size", 2}}), ddp}}},
           {{4, 2, {use("pipeline_parallel", {{"size", 2}}), fsdp}}},
           {{8, 2, {use("pipeline_parallel", {{"size", 2}}), cut_matrices(2), fsdp}}}}) {
    RunSpec spec = muon_spec_on(mesh, {}, muon);
    spec.train.accumulation = 2;
    SCOPED_TRACE(text_of(mesh));
    expect_equal_training(pool(), spec, one_process_of(spec, mesh.batch_ranks), 1e-9);
  }
}

TEST(MuonOnRanks, LowPrecisionAgreesWithOneProcess) {
  for (const PluginUse& strategy : {use("ddp"), use("fsdp")}) {
    RunSpec spec = muon_spec(2, {strategy, use("mixed_precision")});
    spec.train.dtype = "fp32";
    expect_equal_training(pool(), spec, one_process_of(spec, 2), 2e-2, /*states=*/false);
  }
}

TEST(MuonOnRanks, LoraFactorsAreUpdatedAsMatrices) {
  for (const PluginUse& strategy : {use("ddp"), use("fsdp")}) {
    const RunSpec spec = muon_spec(2, {strategy, use("lora", {{"rank", 3}})});
    expect_equal_training(pool(), spec, one_process_of(spec, 2), 1e-9, /*states=*/false);
  }
}

/// Four layers, so that every round of two or four ranks is full.
Json result_of(int64_t ranks, Stack stack) {
  RunSpec spec = small_spec(ranks, std::move(stack), {{"n_layers", 4}});
  spec.train.warmup = spec.train.steps = 1;
  return train_on(pool(), {.spec = spec}).result;
}

/// Each of n ranks sends a whole matrix to the others, and as many bytes to collect parts.
TEST(MuonOnRanks, SentBytesMatchTheory) {
  const double matrices = 8 * 4 * (2 * 24 * 24 + 2 * 24 * 12 + 3 * 24 * 36);  // bytes in fp64
  for (const int64_t ranks : {2, 4}) {
    const double share = matrices * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
    const Json without = result_of(ranks, {use("fsdp")}), with = result_of(ranks, {use("fsdp"), use("muon")});
    for (const char* collective : {"all_gather", "reduce_scatter"}) {
      SCOPED_TRACE(collective);
      EXPECT_NEAR(sent(with, collective) - sent(without, collective), share, 1e-9 * share);
      EXPECT_NEAR(theory(with, collective) - theory(without, collective), share, 1e-9 * share);
    }
    const Json copies = result_of(ranks, {use("ddp"), use("muon")});
    EXPECT_NEAR(sent(copies, "all_gather"), share, 1e-9 * share);
    EXPECT_NEAR(theory(copies, "all_gather"), share, 1e-9 * share);
    const Json alone = result_of(ranks, {use("ddp"), use("muon", {{"distributed", false}})});
    EXPECT_EQ(sent(alone, "all_gather"), 0);
  }
}

/// Compares the operations of a step. Only the iteration differs.
TEST(MuonOnRanks, RanksShareTheWork) {
  const auto operations = [&](Stack stack) {
    return result_of(4, std::move(stack)).at("flops_per_token").at("hfu").get<double>();
  };
  const double ddp = operations({use("ddp")}), fsdp = operations({use("fsdp")});
  const double iterations = operations({use("ddp"), use("muon", {{"distributed", false}})}) - ddp;
  EXPECT_GT(iterations, 0);
  EXPECT_NEAR(operations({use("ddp"), use("muon")}) - ddp, iterations / 4, 1e-6 * iterations);
  EXPECT_NEAR(operations({use("fsdp"), use("muon")}) - fsdp, iterations / 4, 1e-6 * iterations);
}

TEST(MuonOnRanks, SavedStateContinuesOnOtherRanks) {
  const PluginUse ddp = use("ddp"), fsdp = use("fsdp");
  expect_states_continue(
      pool(),
      {{{4, 4, {fsdp}}, {1, 1, {}}},
       {{1, 1, {}}, {4, 2, {cut_matrices(2), fsdp}}},
       {{2, 2, {ddp}}, {4, 4, {use("fsdp", {{"shard_ranks", 2}})}}}},
      [](const MeshOfRanks& mesh, const Stack& on_top) { return muon_spec_on(mesh, on_top); });
}

TEST(MuonOnRanks, OptimizerInBackwardIsRefusedForParts) {
  expect_in_backward_is_refused_for_parts(
      pool(), {{2, 2, {use("fsdp")}}, {2, 1, {cut_matrices(2)}}},
      [](const MeshOfRanks& mesh, const Stack& on_top) { return muon_spec_on(mesh, on_top); });
}
}  // namespace
}  // namespace optrush::testing
