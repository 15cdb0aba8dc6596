// Padding passes no router and no expert. So a mixture trains alike, and counts alike, with any length of the
// sequences and under every strategy. Prompts without a loss are no padding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "base/temporary_folder.h"
#include "mesh_runs.h"

namespace optrush::testing {
namespace {
constexpr int64_t kSequences = 4;  ///< of a step

/// Documents of 4 to 12 tokens; the prompts of every third one are not trained.
std::string short_documents() {
  static const TemporaryFolder folder;
  const auto path = folder / "documents.jsonl";
  if (std::filesystem::exists(path)) return path;
  std::ofstream file(path);
  for (int i = 0; i < 24; ++i) {
    file << R"({"prompt_tokens": )" << (i % 3 == 0 ? 2 : 0) << R"(, "tokens": [1)";
    for (int j = 0; j < 3 + i * 7 % 9; ++j) file << ", " << (11 * i + 3 * j * j) % 61;
    file << "]}\n";
  }
  return path;
}

RunSpec documents_spec(const MeshOfRanks& mesh, const Stack& on_top, int64_t length) {
  Stack plugins = mesh.strategy;
  plugins.insert(plugins.end(), on_top.begin(), on_top.end());
  RunSpec spec = small_spec(mesh.ranks, plugins,
                            {{"n_layers", 3},
                             {"n_experts", 4},
                             {"experts_per_token", 2},
                             {"expert_ffn_dim", 12},
                             {"dense_layers", {0}}});
  spec.data = {.kind = "documents", .path = short_documents()};
  spec.train.seq_len = length;
  spec.train.accumulation = kSequences / mesh.batch_ranks;
  spec.train.warmup = 1;
  spec.train.steps = 3;
  return spec;
}

/// What a report says about routers.
std::map<std::string, double> counters_of(const Json& result) {
  std::map<std::string, double> values;
  for (const auto& [plugin, counters] : result.at("counters").items())
    if (plugin != "expert_parallel" && plugin != "pipeline_parallel" && plugin != "fsdp")
      for (const Json& counter : counters) values[counter.at("name")] = counter.at("value");
  return values;
}

void expect_alike(const TrainedRanks& is, const TrainedRanks& one, const std::string& where) {
  EXPECT_LT(difference(is.losses, one.losses), 1e-9) << where;
  EXPECT_LT(difference(is.norms, one.norms), 1e-9) << where;
  const auto got = counters_of(is.result), expected = counters_of(one.result);
  ASSERT_GE(expected.size(), 2U);
  for (const auto& [name, value] : expected) {
    ASSERT_TRUE(got.contains(name)) << where << ": " << name;
    EXPECT_NEAR(got.at(name), value, 1e-9) << where << ": " << name;
  }
}

const Stack kLosses = {use("router_losses", {{"balance", 0.5}, {"z", 0.1}})};

TEST(MixturePadding, ChangesNothingOnAnyMesh) {
  const auto cuts = [](bool sequence) {
    return use("tensor_parallel", {{"size", 2}, {"sequence", sequence}});
  };
  const PluginUse ring = use("context_parallel"), heads = use("context_parallel", {{"kind", "all_to_all"}});
  for (const auto& [mesh, on_top] : std::vector<std::pair<MeshOfRanks, Stack>>{
           {{1, 1, {}}, kLosses},
           {{1, 1, {use("grouped_experts")}}, kLosses},
           {{1, 1, {use("activation_checkpointing")}}, kLosses},
           {{1, 1, {use("activation_checkpointing", {{"policy", "selective"}})}}, kLosses},
           {{1, 1, {use("activation_checkpointing", {{"policy", "budget"}, {"budget", 0.5}})}}, kLosses},
           {{2, 2, {use("ddp")}}, kLosses},
           {{2, 2, {use("fsdp")}}, kLosses},
           {{2, 2, {experts_over(2), use("ddp")}}, kLosses},
           {{2, 1, {cuts(false)}}, kLosses},
           {{2, 1, {cuts(true)}}, kLosses},
           {{2, 1, {use("pipeline_parallel")}}, kLosses},
           {{4, 2, {cuts(true), experts_over(2), use("ddp")}}, kLosses},
           {{4, 2, {experts_over(2), use("pipeline_parallel"), use("ddp")}}, kLosses},
           {{2, 1, {ring, use("ddp")}}, {}},
           {{2, 1, {heads, use("ddp")}}, {}},
           {{4, 2, {experts_over(2), ring, use("ddp")}}, {}}}) {
    const TrainedRanks& one = reference_of(pool(), {.spec = documents_spec({1, 1, {}}, on_top, 12)}).trained;
    for (const int64_t length : {12, 36})
      expect_alike(train_on(pool(), {.spec = documents_spec(mesh, on_top, length)}), one,
                   text_of(mesh) + ", length " + std::to_string(length));
  }
}

/// The z loss is a mean over tokens, so it does not depend on the micro-batches either.
TEST(MixturePadding, TheMeanOverTokensDoesNotDependOnMicroBatches) {
  const Stack losses = {use("router_losses", {{"balance", 0.0}, {"z", 0.3}})};
  const TrainedRanks& one = reference_of(pool(), {.spec = documents_spec({1, 1, {}}, losses, 12)}).trained;
  RunSpec together = documents_spec({1, 1, {}}, losses, 24);
  together.train.micro_batch = kSequences;
  together.train.accumulation = 1;
  const TrainedRanks all = train_on(pool(), {.spec = together});
  EXPECT_LT(difference(all.losses, one.losses), 1e-9);
  EXPECT_LT(difference(all.norms, one.norms), 1e-9);
  EXPECT_NEAR(counters_of(all.result).at("z loss"), counters_of(one.result).at("z loss"), 1e-9);
}

/// All documents in one packed sequence, or each in its own, padded.
TEST(MixturePadding, PackedDocumentsCountLikeSeparateOnes) {
  RunSpec separate = documents_spec({1, 1, {}}, kLosses, 12);
  separate.train.micro_batch = 24;
  separate.train.accumulation = 1;
  RunSpec packed = separate;
  packed.plugins.push_back(use("packing"));
  packed.train.seq_len = 24 * 12;
  packed.train.micro_batch = 1;
  expect_alike(train_on(pool(), {.spec = packed}), train_on(pool(), {.spec = separate}), "packed");
}

/// Validation routes the padding of its sequences nowhere, and its rows do not count.
TEST(MixturePadding, ValidationIsAlike) {
  const auto trained = [&](int64_t length, int64_t micro_batch) {
    RunSpec spec = documents_spec({1, 1, {}}, kLosses, length);
    spec.train.micro_batch = micro_batch;
    spec.train.accumulation = kSequences / micro_batch;
    spec.validate.every = 2;
    spec.validate.sequences = 5;
    return train_on(pool(), {.spec = spec});
  };
  const TrainedRanks one = trained(12, 1), longer = trained(36, 1);
  EXPECT_LT(difference(validation_losses(longer), validation_losses(one)), 1e-9);
  expect_alike(longer, one, "validated");
}
}  // namespace
}  // namespace optrush::testing
