// Pipelines of several ranks equal one process. The tests use the real trainer with random models, meshes,
// schedules and stacks. Bytes sent equal theory, and activations held follow the schedule. Another number of
// ranks can continue from a saved state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "random_training.h"
#include "support/error_of.h"
#include "worker/predict.h"

namespace optrush::testing {
namespace {

PluginUse pipeline(int64_t size, const std::string& schedule = "1f1b", const Json& more = Json::object()) {
  Json options = {{"size", size}, {"schedule", schedule}};
  options.update(more);
  return {"pipeline_parallel", options};
}

/// A mesh of pipelines, possibly with other strategies, of at most 8 ranks.
RandomTraining draw_stages(Draws& draws, uint64_t seed) {
  const auto schedule = std::vector<std::string>{"1f1b", "gpipe", "interleaved", "zero_bubble"}.at(seed % 4);
  const bool interleaved = schedule == "interleaved", late = schedule == "zero_bubble";
  const int64_t stages = seed < 4 ? 3 : draws.one_of<int64_t>({2, 2, 3, 4}), room = 8 / stages;
  const int64_t matrices = room >= 2 ? draws.one_of<int64_t>({1, 2}) : 1;
  const int64_t positions = room / matrices >= 2 ? draws.one_of<int64_t>({1, 1, 2}) : 1;
  const int64_t batch_ranks = room / matrices / positions >= 2 ? draws.one_of<int64_t>({1, 2}) : 1;
  std::vector<PluginUse> plugins = {pipeline(stages, schedule)};
  if (matrices > 1)
    plugins.push_back({"tensor_parallel", {{"size", matrices}, {"sequence", draws.sometimes()}}});
  if (positions > 1) plugins.push_back({"context_parallel", {{"size", positions}}});
  if (batch_ranks * positions > 1)
    plugins.push_back(late ? PluginUse{"ddp", Json::object()} : some_data_parallelism(draws));
  add_some_plugins(draws, plugins);
  RunSpec spec = small_spec(stages * matrices * positions * batch_ranks, plugins,
                            {{"vocab_size", draws.one_of<int>({37, 64})},
                             {"n_kv_heads", draws.one_of<int>({2, 4})},
                             {"n_layers", interleaved ? 2 * stages : draws.one_of<int64_t>({2, 3, 5})},
                             {"ffn_dim", draws.one_of<int>({13, 29})},
                             {"tie_embeddings", draws.sometimes()}});
  spec.train.seq_len = 8;
  spec.train.accumulation =
      interleaved ? stages * draws.one_of<int64_t>({1, 2}) : draws.one_of<int64_t>({1, 2, 3, 5});
  return {spec, batch_ranks};
}

TEST(PipelineParallel, RandomConfigurationsEqualOneProcess) {
  expect_equal_for_seeds(pool(), 24, draw_stages);
}

TEST(PipelineParallel, DropoutEqualsOneProcess) {
  const RunSpec spec = small_spec(2, {pipeline(2), {"lora", {{"rank", 2}, {"dropout", 0.4}}}});
  expect_equal_training(pool(), spec, one_process_of(spec, 1), 1e-9);
}

TEST(PipelineParallel, LowPrecisionErrorIsNoLargerThanOnOneProcess) {
  for (const char* schedule : {"1f1b", "zero_bubble"})
    for (const char* precision : {"mixed_precision", "bf16_weights"}) {
      RunSpec spec = small_spec(2, {pipeline(2, schedule), {precision, Json::object()}});
      spec.train.dtype = "fp32";
      spec.train.accumulation = 3;
      expect_equal_training(pool(), spec, one_process_of(spec, 1), 2e-2, false);
    }
}

RunSpec deep_spec(int64_t ranks, const PluginUse& plugin, int64_t micros) {
  RunSpec spec =
      small_spec(ranks, {plugin, {"flash_attention", Json::object()}},
                 {{"vocab_size", 16}, {"n_layers", 2 * ranks}, {"n_kv_heads", 4}, {"tie_embeddings", false}});
  spec.train.accumulation = micros;
  spec.train.warmup = spec.train.steps = 1;
  return spec;
}

/// One activation forward and one gradient backward for each boundary and micro-batch.
TEST(PipelineParallel, SentBytesMatchTheory) {
  for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zero_bubble"})
    for (const int64_t ranks : {2, 4}) {
      const Json result = train_on(pool(), {.spec = deep_spec(ranks, pipeline(ranks, schedule), 4)}).result;
      SCOPED_TRACE(std::string(schedule) + " " + result.at("collectives").dump());
      const double boundary = 12.0 * 24 * 8, messages = std::string(schedule) == "interleaved" ? 3 : 1;
      EXPECT_NEAR(sent(result, "send"), 4 * messages * boundary, 1);
      EXPECT_NEAR(theory(result, "send"), sent(result, "send"), 1);
    }
}

/// A rank holds the activations of the micro-batches that its schedule has in flight.
TEST(PipelineParallel, RanksHoldOnlyActivationsInFlight) {
  const auto kept = [](const char* schedule, int64_t micros) {
    RunSpec spec = deep_spec(4, pipeline(4, schedule, {{"blocks", "2,2,2,2"}}), micros);
    spec.train.seq_len = 256;
    const Json result = train_on(pool(), {.spec = spec}).result;
    std::vector<double> by_rank;
    for (const Json& rank : result.at("ranks")) by_rank.push_back(rank.at("peak_allocated"));
    return by_rank;
  };
  const auto few = kept("gpipe", 4), many = kept("gpipe", 8);
  const auto of_four = kept("1f1b", 4), of_eight = kept("1f1b", 8), late = kept("zero_bubble", 8);
  // The memory of one more micro-batch in flight, on a rank in the middle.
  const double of_one = (many[1] - few[1]) / 4;
  EXPECT_GT(of_one, 12.0 * 24 * 8);
  EXPECT_NEAR(of_eight[1], of_four[1], 0.05 * of_one);
  EXPECT_NEAR(many[1] - of_eight[1], (8 - 3) * of_one, 0.25 * of_one);
  EXPECT_NEAR(of_eight[1] - of_eight[2], of_one, 0.25 * of_one);
  EXPECT_LT(late[1], of_eight[0] + of_one);
}

TEST(PipelineParallel, PeakIsPredicted) {
  for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zero_bubble"}) {
    SCOPED_TRACE(schedule);
    RunSpec spec = deep_spec(2, pipeline(2, schedule), 4);
    spec.train.seq_len = 128;
    expect_predicted_peak(pool(), spec);
  }
}

/// The rank with the largest memory: because of micro-batches in flight, of its blocks, or of the logits.
TEST(PipelineParallel, APlanNamesTheRankWithTheLargestPeak) {
  struct Case {
    int64_t ranks, vocabulary;
    const char* blocks;
    PluginUse beside;
    int64_t largest;
  };
  const PluginUse none = {"fused_adamw", Json::object()};
  const std::vector<Case> cases = {
      {3, 16, "2,2,2", none, 0},
      {3, 16, "1,5,1", none, 1},
      {3, 3000, "2,2,2", none, 2},
      {6, 16, "1,5,1", {"ddp", Json::object()}, 2},  // two copies of each stage
      {6, 3000, "2,2,2", {"tensor_parallel", {{"size", 2}, {"sequence", true}}}, 4},
  };
  for (const auto& [ranks, vocabulary, blocks, beside, largest] : cases) {
    SCOPED_TRACE(std::string(blocks) + " blocks, " + std::to_string(vocabulary) + " entries");
    RunSpec spec = deep_spec(ranks, pipeline(3, "1f1b", {{"blocks", blocks}}), 4);
    const Json n_layers = std::string(blocks) == "1,5,1" ? 7 : 6;
    spec.model.update({{"n_layers", n_layers}, {"vocab_size", vocabulary}});
    spec.train.seq_len = 128;
    spec.plugins.push_back(beside);
    const auto planned = forecast(spec, at::kCPU);
    ASSERT_TRUE(planned && planned->memory.rank);
    EXPECT_EQ(*planned->memory.rank, largest);
    expect_predicted_peak(pool(), spec);
  }
}

TEST(PipelineParallel, BubbleIsCounted) {
  RunSpec spec = deep_spec(2, pipeline(2), 4);
  const Json result = train_on(pool(), {.spec = spec}).result;
  const auto counter = [&](const std::string& name) -> double {
    for (const Json& each : result.at("counters").at("pipeline_parallel"))
      if (each.at("name") == name) return each.at("value");
    throw std::runtime_error("no counter " + name + " in " + result.at("counters").dump());
  };
  EXPECT_NEAR(counter("bubble in theory"), 100.0 / 5, 1e-9);
  EXPECT_GT(counter("pipeline bubble"), 0);
  EXPECT_LT(counter("pipeline bubble"), 100);
}

TEST(PipelineParallel, SavedStateContinuesOnOtherRanks) {
  const PluginUse ddp = {"ddp", Json::object()}, fsdp = {"fsdp", Json::object()};
  struct Mesh {
    int64_t ranks, batch_ranks;
    std::vector<PluginUse> plugins;
  };
  const PluginUse matrices = {"tensor_parallel", {{"size", 2}}},
                  positions = {"context_parallel", {{"size", 2}}};
  const std::vector<std::pair<Mesh, Mesh>> cases = {
      {{4, 2, {matrices, ddp}}, {4, 1, {pipeline(2), positions, ddp}}},
      {{4, 1, {pipeline(2), positions, fsdp}}, {1, 1, {}}},
      {{1, 1, {}}, {3, 1, {pipeline(3, "zero_bubble")}}}};
  for (const auto& [from, to] : cases)
    for (const bool tied : {false, true}) {
      const auto spec_of = [tied = tied](const Mesh& mesh) {
        RunSpec spec = small_spec(mesh.ranks, mesh.plugins, {{"tie_embeddings", tied}});
        spec.train.accumulation = 2;
        spec.train.micro_batch = 2 / mesh.batch_ranks;
        return spec;
      };
      expect_state_continues(pool(), spec_of(from), spec_of(to), spec_of({1, 1, {}}),
                             /*norm_tolerance=*/1e-7);
    }
}

TEST(PipelineParallel, ModelsThatCannotBeCutAreRefused) {
  const auto refusal = [](const RunSpec& spec) { return refusal_of(pool(), spec); };
  EXPECT_THAT(refusal(small_spec(8, {pipeline(8)})), is_error("unsupported", "5 units", "8"));
  RunSpec odd = small_spec(2, {pipeline(2, "interleaved")});
  odd.train.accumulation = 3;
  EXPECT_THAT(refusal(odd), is_error("unsupported", "2 ranks", "3 micro-batches"));
  EXPECT_THAT(refusal(small_spec(2, {pipeline(2, "1f1b", {{"blocks", "1,1"}})})),
              is_error("unsupported", "2 blocks on 2 stages", "3 blocks"));
  EXPECT_THAT(refusal(small_spec(2, {pipeline(2, "1f1b", {{"blocks", "1,two"}})})),
              is_error("unsupported", "'two'"));
  EXPECT_THAT(refusal(small_spec(2, {pipeline(2, "1f1b", {{"chunks", 3}})})),
              is_error("unsupported", "3 chunks"));
  EXPECT_THAT(refusal(small_spec(4, {pipeline(2, "zero_bubble"), {"fsdp", Json::object()}})),
              is_error("unsupported", "'fsdp'"));
  EXPECT_THAT(refusal(small_spec(3, {pipeline(2), {"ddp", Json::object()}})),
              is_error("wrong_ranks", "(pp 2)"));
}
}  // namespace
}  // namespace optrush::testing
