// Muon on several ranks trains as on one process: whole matrices are put together of parts, copies share the
// work, and both send what theory says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exactness.h"
#include "random_training.h"
#include "support/temporary_folder.h"

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
  for (const Mesh& mesh : std::vector<Mesh>{
           {4, 4, {ddp}},
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

/// A rank of n sends a whole matrix to each of the others, and as much to collect parts of its own.
TEST(MuonOnRanks, SendsWhatTheorySays) {
  const Json model = {{"n_layers", 4}};
  const double layer = 2 * 24 * 24 + 2 * 24 * 12 + 3 * 24 * 36, matrices = 4 * layer * 8;  // bytes in fp64
  for (const int64_t ranks : {2, 4}) {
    const double share = matrices * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
    const auto bytes = [&](Stack stack, const char* collective) {
      const Json result =
          train_on(pool(), {.spec = small_spec(ranks, std::move(stack), model)}).result;
      return std::pair(sent(result, collective), theory(result, collective));
    };
    for (const char* collective : {"all_gather", "reduce_scatter"}) {
      SCOPED_TRACE(collective);
      const auto without = bytes({use("fsdp")}, collective), with = bytes({use("fsdp"), use("muon")}, collective);
      EXPECT_NEAR(with.first - without.first, share, 1e-9 * share);
      EXPECT_NEAR(with.second - without.second, share, 1e-9 * share);
    }
    const auto copies = bytes({use("ddp"), use("muon")}, "all_gather");
    EXPECT_NEAR(copies.first, share, 1e-9 * share);
    EXPECT_NEAR(copies.second, share, 1e-9 * share);
    EXPECT_EQ(bytes({use("ddp"), use("muon", {{"distributed", false}})}, "all_gather").first, 0);
  }
}

/// Operations of the optimizer in a step, by what the iteration adds to them.
TEST(MuonOnRanks, ShareTheWork) {
  const Json model = {{"n_layers", 4}};
  const auto operations = [&](Stack stack) {
    const RunSpec spec = small_spec(4, std::move(stack), model);
    return train_on(pool(), {.spec = spec}).result.at("flops_per_token").at("hfu").get<double>();
  };
  for (const char* strategy : {"ddp", "fsdp"}) {
    const double without = operations({use(strategy)}), shared = operations({use(strategy), use("muon")});
    const double alone = operations({use("ddp"), use("muon", {{"distributed", false}})}) - operations({use("ddp")});
    EXPECT_GT(alone, 0);
    EXPECT_NEAR(shared - without, alone / 4, 1e-6 * alone) << strategy;
  }
}

TEST(MuonOnRanks, StateSavedOnSomeRanksGoesOnOnOthers) {
  const PluginUse ddp = use("ddp"), fsdp = use("fsdp");
  const std::vector<std::pair<Mesh, Mesh>> cases = {
      {{4, 4, {fsdp}}, {1, 1, {}}},
      {{1, 1, {}}, {4, 2, {tensor_parallel(2), fsdp}}},
      {{2, 2, {ddp}}, {4, 4, {use("fsdp", {{"shard_ranks", 2}})}}}};
  for (const auto& [from, to] : cases) {
    const auto resumed = [](const Mesh& mesh, int64_t steps) {
      RunSpec spec = spec_of(mesh.ranks, mesh.strategy);
      spec.train.micro_batch = 4 / mesh.batch_ranks;
      spec.train.warmup = 1;
      spec.train.steps = steps;
      return spec;
    };
    SCOPED_TRACE(std::to_string(from.ranks) + " to " + std::to_string(to.ranks));
    const TemporaryFolder folder;
    const auto whole = train_on(pool(), {.spec = one_process_of(resumed(from, 9), from.batch_ranks)});
    train_on(pool(), {.spec = resumed(from, 4), .save = folder / "state"});
    const auto rest = train_on(pool(), {.spec = resumed(to, 4), .load = folder / "state"});
    ASSERT_EQ(rest.losses.size(), 5U);
    EXPECT_LT(difference(rest.losses, {whole.losses.begin() + 5, whole.losses.end()}), 1e-9);
  }
}

TEST(MuonOnRanks, PartsAreNotUpdatedOneByOne) {
  const PluginUse in_backward = use("optimizer_in_backward");
  for (const PluginUse& strategy : {use("fsdp"), tensor_parallel(2)})
    EXPECT_THAT(refusal_of(pool(), spec_of(2, {strategy, in_backward})),
                HasSubstr("'optimizer_in_backward' updates each part by itself"));
  // Copies are: each rank for itself.
  const RunSpec spec = spec_of(2, {use("ddp"), in_backward});
  expect_equal_training(pool(), spec, one_process_of(spec, 2), 1e-9);
}
}  // namespace
}  // namespace optrush::testing

int main(int argc, char** argv) {
  return optrush::testing::main_of_ranks(argc, argv, optrush::testing::training_jobs());
}
