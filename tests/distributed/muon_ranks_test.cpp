// Muon on several ranks trains as on one process: whole matrices are put together of parts, copies share the
// work, and both send what theory says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exactness.h"
#include "random_training.h"

namespace optrush::testing {
namespace {
using ::testing::HasSubstr;

RankPool& pool() {
  static RankPool pool(8);
  return pool;
}

using Stack = std::vector<PluginUse>;
PluginUse use(const char* name, Json options = Json::object()) { return {name, std::move(options)}; }
PluginUse tensor_parallel(int64_t size) { return use("tensor_parallel", {{"size", size}}); }

/// Three layers: the matrices of most shapes fill no round.
RunSpec spec_of(int64_t ranks, Stack stack, Json muon = Json::object()) {
  stack.push_back(use("muon", std::move(muon)));
  RunSpec spec = small_spec(ranks, std::move(stack));
  spec.train.weight_decay = 0.1;
  spec.train.steps = 3;
  return spec;
}

/// Where ranks keep matrices, and how many of them train on other data.
struct Mesh {
  int64_t ranks, batch_ranks;
  Stack strategy;
  Json muon = Json::object();
};

TEST(MuonOnRanks, EqualsOneProcess) {
  const PluginUse ddp = use("ddp"), fsdp = use("fsdp");
  for (const Mesh& mesh :
       std::vector<Mesh>{{4, 4, {ddp}},
                         {3, 3, {ddp}, {{"distributed", false}, {"nesterov", false}}},
                         {4, 4, {fsdp}},
                         {3, 3, {use("fsdp", {{"stage", 1}})}, {{"scale", "spectral"}}},
                         {8, 8, {use("fsdp", {{"shard_ranks", 4}})}},  // some ranks have nothing of a matrix
                         {2, 2, {use("fsdp", {{"offload", true}})}},
                         {2, 1, {tensor_parallel(2)}},
                         {4, 2, {tensor_parallel(2), ddp}},
                         {4, 2, {tensor_parallel(2), fsdp}},
                         {4, 2, {use("context_parallel", {{"size", 2}}), ddp}},
                         {4, 2, {use("pipeline_parallel", {{"size", 2}}), fsdp}},
                         {8, 2, {use("pipeline_parallel", {{"size", 2}}), tensor_parallel(2), fsdp}}}) {
    RunSpec spec = spec_of(mesh.ranks, mesh.strategy, mesh.muon);
    spec.train.accumulation = 2;
    std::string what = std::to_string(mesh.ranks) + " ranks:";
    for (const PluginUse& plugin : mesh.strategy) what += " " + plugin.name + plugin.options.dump();
    SCOPED_TRACE(what);
    expect_equal_training(pool(), spec, one_process_of(spec, mesh.batch_ranks), 1e-9);
  }
}

TEST(MuonOnRanks, InFewerBitsRanksAgreeWithOneProcess) {
  for (const PluginUse& strategy : {use("ddp"), use("fsdp")}) {
    RunSpec spec = spec_of(2, {strategy, use("mixed_precision")});
    spec.train.dtype = "fp32";
    expect_equal_training(pool(), spec, one_process_of(spec, 2), 2e-2, /*states=*/false);
  }
}

TEST(MuonOnRanks, LorasFactorsAreMatrices) {
  for (const PluginUse& strategy : {use("ddp"), use("fsdp")}) {
    const RunSpec spec = spec_of(2, {strategy, use("lora", {{"rank", 3}})});
    expect_equal_training(pool(), spec, one_process_of(spec, 2), 1e-9, /*states=*/false);
  }
}

/// Four layers, so that every round of two or four ranks is full.
Json result_of(int64_t ranks, Stack stack) {
  RunSpec spec = small_spec(ranks, std::move(stack), {{"n_layers", 4}});
  spec.train.steps = 2;
  return train_on(pool(), {.spec = spec}).result;
}

/// A rank of n sends a whole matrix to each of the others, and as much to collect parts of its own.
TEST(MuonOnRanks, SendsWhatTheorySays) {
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

/// By the operations of a step, of which the iteration is what differs.
TEST(MuonOnRanks, ShareTheWork) {
  const auto operations = [&](Stack stack) {
    return result_of(4, std::move(stack)).at("flops_per_token").at("hfu").get<double>();
  };
  const double ddp = operations({use("ddp")}), fsdp = operations({use("fsdp")});
  const double iterations = operations({use("ddp"), use("muon", {{"distributed", false}})}) - ddp;
  EXPECT_GT(iterations, 0);
  EXPECT_NEAR(operations({use("ddp"), use("muon")}) - ddp, iterations / 4, 1e-6 * iterations);
  EXPECT_NEAR(operations({use("fsdp"), use("muon")}) - fsdp, iterations / 4, 1e-6 * iterations);
}

TEST(MuonOnRanks, StateSavedOnSomeRanksGoesOnOnOthers) {
  const PluginUse ddp = use("ddp"), fsdp = use("fsdp");
  const std::vector<std::pair<Mesh, Mesh>> cases = {
      {{4, 4, {fsdp}}, {1, 1, {}}},
      {{1, 1, {}}, {4, 2, {tensor_parallel(2), fsdp}}},
      {{2, 2, {ddp}}, {4, 4, {use("fsdp", {{"shard_ranks", 2}})}}}};
  for (const auto& [from, to] : cases) {
    const auto resumed = [](const Mesh& mesh) {
      RunSpec spec = spec_of(mesh.ranks, mesh.strategy);
      spec.train.micro_batch = 4 / mesh.batch_ranks;
      return spec;
    };
    const RunSpec saving = resumed(from);
    expect_state_goes_on(pool(), saving, resumed(to), one_process_of(saving, from.batch_ranks));
  }
}

TEST(MuonOnRanks, PartsAreNotUpdatedOneByOne) {
  const PluginUse in_backward = use("optimizer_in_backward");
  for (const PluginUse& strategy : {use("fsdp"), tensor_parallel(2)})
    EXPECT_THAT(refusal_of(pool(), spec_of(2, {strategy, in_backward})),
                HasSubstr("'optimizer_in_backward' updates each parameter separately"));
  // Copies are: each rank for itself.
  const RunSpec spec = spec_of(2, {use("ddp"), in_backward});
  expect_equal_training(pool(), spec, one_process_of(spec, 2), 1e-9);
}
}  // namespace
}  // namespace optrush::testing

int main(int argc, char** argv) {
  return optrush::testing::main_of_ranks(argc, argv, optrush::testing::training_jobs());
}
