// Tensor parallelism on several ranks equals one process. The tests use the real trainer with random models,
// meshes and stacks. Bytes sent and held equal theory. Another number of ranks can continue from a saved
// state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "random_training.h"
#include "support/error_of.h"

namespace optrush::testing {
namespace {

PluginUse tensor_parallel(int64_t size, bool sequence = false) {
  return {"tensor_parallel", {{"size", size}, {"sequence", sequence}}};
}

void expect_cuts_equal_one_process(const RunSpec& spec, int64_t size, double tolerance, bool states = true) {
  expect_equal_training(pool(), spec, one_process_of(spec, spec.train.world_size / size), tolerance, states);
}

RandomTraining draw_cuts(Draws& draws, uint64_t seed) {
  const int64_t size = seed == 0 ? 4 : draws.one_of<int64_t>({2, 2, 3, 4});
  const int64_t batch_ranks = seed == 0 ? 2 : size == 4 ? 1 : draws.one_of<int64_t>({1, 2});
  const bool sequence = draws.sometimes();
  std::vector<PluginUse> plugins = {tensor_parallel(size, sequence)};
  if (!sequence) plugins.front().options["overlap"] = draws.one_of<int>({1, 3});
  if (batch_ranks > 1) plugins.push_back(some_data_parallelism(draws));
  add_some_plugins(draws, plugins);
  const int64_t heads = size * draws.one_of<int64_t>({1, 2}), head = draws.one_of<int64_t>({4, 6});
  // As many key and value heads as ranks, fewer, or as many as heads.
  const int64_t keys = draws.one_of<int64_t>({1, size, heads});
  RunSpec spec = small_spec(size * batch_ranks, plugins,
                            {{"vocab_size", draws.one_of<int>({37, 61, 64})},
                             {"dim", heads * head},
                             {"n_heads", heads},
                             {"n_kv_heads", keys},
                             {"n_layers", draws.one_of<int>({1, 2})},
                             {"ffn_dim", draws.one_of<int>({13, 29, 48})},
                             {"tie_embeddings", draws.sometimes()}});
  spec.train.accumulation = draws.one_of<int64_t>({1, 2});
  return {spec, batch_ranks};
}

TEST(TensorParallel, RandomConfigurationsEqualOneProcess) { expect_equal_for_seeds(pool(), 18, draw_cuts); }

TEST(TensorParallel, LowPrecisionErrorIsNoLargerThanOnOneProcess) {
  for (const bool sequence : {false, true}) {
    RunSpec spec = small_spec(2, {tensor_parallel(2, sequence), {"mixed_precision", Json::object()}});
    spec.train.dtype = "fp32";
    expect_cuts_equal_one_process(spec, 2, 5e-3, false);
    spec.plugins[1] = {"bf16_weights", Json::object()};
    expect_cuts_equal_one_process(spec, 2, 2e-2, false);
  }
}

/// Sequences are long, so other traffic is small.
RunSpec wide_spec(int64_t ranks, std::vector<PluginUse> plugins) {
  RunSpec spec =
      small_spec(ranks, std::move(plugins),
                 {{"vocab_size", 64}, {"dim", 64}, {"n_heads", 4}, {"n_kv_heads", 4}, {"ffn_dim", 160}});
  spec.train.seq_len = 32;
  spec.train.accumulation = 2;
  spec.train.warmup = spec.train.steps = 1;
  return spec;
}

TEST(TensorParallel, SentBytesMatchTheory) {
  for (const int64_t ranks : {2, 4})
    for (const bool sequence : {false, true}) {
      const RunSpec spec = wide_spec(ranks, {tensor_parallel(ranks, sequence)});
      const Json result = train_on(pool(), {.spec = spec}).result;
      SCOPED_TRACE(result.at("collectives").dump());
      const double n = static_cast<double>(ranks), share = (n - 1) / n, activations = 2.0 * 32 * 64 * 8;
      const double loss = 2 * share * 2 * 32 * (n + 1) * 8, sums = 4 * 3 + 2;
      const double norms = sequence ? 2 * share * 7 * 64 * 8 : 0;
      EXPECT_NEAR(sent(result, "all_reduce"), loss + norms + (sequence ? 0 : 2 * share * sums * activations),
                  1);
      EXPECT_NEAR(sent(result, "all_gather"), sequence ? share * sums * activations : 0, 1);
      EXPECT_NEAR(sent(result, "reduce_scatter"), sequence ? share * sums * activations : 0, 1);
      EXPECT_NEAR(theory(result, "all_reduce"), sent(result, "all_reduce") - norms, 1);
      EXPECT_NEAR(theory(result, "all_gather"), sent(result, "all_gather"), 1);
    }
}

/// Parameters and both moments fall by the number of ranks. Only norms are whole.
TEST(TensorParallel, EachRankKeepsItsShareOfTheState) {
  const auto peak = [](int64_t ranks) {
    std::vector<PluginUse> plugins = {{"fused_adamw", Json::object()}};
    if (ranks > 1) plugins.push_back(tensor_parallel(ranks));
    RunSpec spec =
        small_spec(ranks, plugins,
                   {{"vocab_size", 512}, {"dim", 256}, {"n_heads", 4}, {"n_kv_heads", 4}, {"ffn_dim", 512}});
    spec.train.seq_len = 4;
    spec.train.warmup = spec.train.steps = 1;
    return static_cast<double>(train_on(pool(), {.spec = spec}).peaks.front());
  };
  const double whole = peak(1);
  EXPECT_NEAR(peak(2), whole / 2, 0.05 * whole / 2);
  EXPECT_NEAR(peak(4), whole / 4, 0.05 * whole / 4);
}

TEST(TensorParallel, PeakIsPredicted) {
  for (const bool sequence : {false, true})
    expect_predicted_peak(pool(), wide_spec(2, {tensor_parallel(2, sequence)}));
}

/// Activations fall as well if the sequences are long and cut.
TEST(TensorParallel, EachRankKeepsItsShareOfTheActivations) {
  const auto peak = [](int64_t ranks) {
    std::vector<PluginUse> plugins = {{"fused_linear_cross_entropy", {{"chunk", 8}}},
                                      {"flash_attention", Json::object()}};
    if (ranks > 1) plugins.push_back(tensor_parallel(ranks, true));
    RunSpec spec =
        small_spec(ranks, plugins, {{"n_layers", 6}, {"dim", 32}, {"n_kv_heads", 4}, {"ffn_dim", 64}});
    spec.train.seq_len = 1024;
    spec.train.warmup = spec.train.steps = 1;
    return static_cast<double>(train_on(pool(), {.spec = spec}).peaks.front());
  };
  const double whole = peak(1);
  EXPECT_LT(peak(2), 0.62 * whole);
  EXPECT_LT(peak(4), 0.40 * whole);
}

TEST(TensorParallel, SavedStateContinuesOnOtherRanks) {
  struct Mesh {
    int64_t ranks, size;
    std::vector<PluginUse> plugins;
  };
  const PluginUse ddp = {"ddp", Json::object()}, fsdp = {"fsdp", Json::object()};
  const std::vector<std::pair<Mesh, Mesh>> cases = {
      {{4, 2, {tensor_parallel(2), ddp}}, {1, 1, {}}},
      {{1, 1, {}}, {4, 4, {tensor_parallel(4, true)}}},
      {{2, 2, {tensor_parallel(2)}}, {4, 2, {tensor_parallel(2, true), fsdp}}},
      {{4, 2, {tensor_parallel(2), fsdp}}, {3, 1, {fsdp}}}};
  for (const auto& [from, to] : cases) {
    const auto spec_of = [](const Mesh& mesh) {
      RunSpec spec = small_spec(mesh.ranks, mesh.plugins);
      spec.train.micro_batch = 6 / (mesh.ranks / mesh.size);
      return spec;
    };
    expect_state_continues(pool(), spec_of(from), spec_of(to),
                           one_process_of(spec_of(from), from.ranks / from.size), /*norm_tolerance=*/1e-9);
  }
}

TEST(TensorParallel, ShapesThatCannotBeCutAreRefused) {
  const auto refusal = [](const RunSpec& spec) { return refusal_of(pool(), spec); };
  EXPECT_THAT(refusal(small_spec(3, {tensor_parallel(3)})), is_error("unsupported", "4 heads"));
  EXPECT_THAT(refusal(small_spec(4, {tensor_parallel(4)}, {{"dim", 48}, {"n_heads", 12}, {"n_kv_heads", 6}})),
              is_error("unsupported", "6 key/value heads"));
  EXPECT_THAT(refusal(small_spec(2, {{"tensor_parallel", {{"sequence", true}, {"overlap", 2}}}})),
              is_error("unsupported", "overlap", "sequence"));
  RunSpec odd = small_spec(2, {tensor_parallel(2, true)});
  odd.train.seq_len = 11;
  EXPECT_THAT(refusal(odd), is_error("unsupported", "11 positions"));
  EXPECT_THAT(refusal(small_spec(3, {tensor_parallel(2), {"ddp", Json::object()}})),
              is_error("wrong_ranks", "(tp 2)"));
  EXPECT_THAT(refusal(small_spec(4, {tensor_parallel(2)})), is_error("wrong_ranks", "2 data-parallel ranks"));
  EXPECT_THAT(refusal(small_spec(
                  2, {tensor_parallel(2), {"lora", {{"dropout", 0.1}, {"target_modules", {"o_proj"}}}}})),
              is_error("unsupported", "dropout"));
}
}  // namespace
}  // namespace optrush::testing
