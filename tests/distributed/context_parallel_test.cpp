// Context parallelism on several ranks equals one process. The tests use the real trainer with random models,
// meshes and stacks. Bytes sent and held equal theory, and sends overlap with kernels.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "context_parallel/ring.h"
#include "context_parallel/ring_blocks.h"
#include "context_parallel/slices.h"
#include "model/operators.h"
#include "random_training.h"
#include "support/error_of.h"
#include "train/run_setup.h"

namespace optrush::testing {
namespace {

PluginUse context_parallel(int64_t size, const char* kind = "ring") {
  return {"context_parallel", {{"size", size}, {"kind", kind}}};
}

TEST(ContextSlices, ZigzagBalancesPairsOfQueryAndKey) {
  for (const int64_t ranks : {2, 3, 4, 8}) {
    const int64_t length = 4 * ranks;
    std::vector<int64_t> seen;
    int64_t expected = -1;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      int64_t pairs = 0;
      for (const auto& [begin, count] : context_parallel::slices_of(length, ranks, rank, /*zigzag=*/true))
        for (int64_t position = begin; position < begin + count; ++position) {
          seen.push_back(position);
          pairs += position + 1;
        }
      if (rank == 0) expected = pairs;
      EXPECT_EQ(pairs, expected) << ranks << " ranks, rank " << rank;
    }
    std::ranges::sort(seen);
    for (int64_t position = 0; position < length; ++position)
      EXPECT_EQ(seen.at(static_cast<size_t>(position)), position);
  }
}

/// The pairs of positions that a rank's queries attend to in all ring steps, and the number of computed
/// pairs.
struct Seen {
  std::vector<std::pair<int64_t, int64_t>> pairs;  ///< positions of query and key
  int64_t computed = 0;
  int64_t empty_steps = 0;
};

Seen seen_by(int64_t rank, const context_parallel::RingShape& shape) {
  const auto positions = [&](int64_t of) {
    std::vector<int64_t> all;
    for (const auto& [begin, length] :
         context_parallel::slices_of(shape.ranks * shape.length, shape.ranks, of, /*zigzag=*/true))
      for (int64_t i = 0; i < length; ++i) all.push_back(begin + i);
    return all;
  };
  Seen seen;
  const auto of_queries = positions(rank);
  for (int64_t owner = 0; owner < shape.ranks; ++owner) {
    const auto of_keys = positions(owner);
    const auto blocks = context_parallel::blocks_of(shape, rank, owner);
    if (blocks.empty()) ++seen.empty_steps;
    for (const auto& block : blocks) {
      seen.computed += block.queries * block.keys;
      for (int64_t q = 0; q < block.queries; ++q)
        for (int64_t k = 0; k < block.keys; ++k)
          if ((!block.causal || k <= q) && (block.window == 0 || q - k < block.window))
            seen.pairs.emplace_back(of_queries.at(static_cast<size_t>(block.first_query + q)),
                                    of_keys.at(static_cast<size_t>(block.first_key + k)));
    }
  }
  std::ranges::sort(seen.pairs);
  return seen;
}

TEST(RingBlocks, EachVisiblePairIsInOneBlock) {
  for (const int64_t ranks : {1, 2, 3, 5})
    for (const int64_t length : {2, 4, 14})
      for (int64_t window = 0; window <= ranks * length + 1; ++window)
        for (int64_t rank = 0; rank < ranks; ++rank) {
          std::vector<std::pair<int64_t, int64_t>> expected;
          for (const auto& [begin, count] : context_parallel::slices_of(ranks * length, ranks, rank, true))
            for (int64_t q = begin; q < begin + count; ++q)
              for (int64_t k = window == 0 ? 0 : std::max<int64_t>(0, q - window + 1); k <= q; ++k)
                expected.emplace_back(q, k);
          std::ranges::sort(expected);
          const Seen seen = seen_by(rank, {ranks, length, window});
          EXPECT_EQ(seen.pairs, expected) << ranks << " ranks of " << length << ", window " << window;
        }
}

TEST(RingBlocks, ShortWindowSkipsHiddenPairs) {
  // 4 ranks with 2 x 8 positions and a window of 4. A rank computes its two stretches and a corner of 3
  // before each. The first stretch of the first rank has no corner.
  for (int64_t rank = 0; rank < 4; ++rank) {
    const Seen seen = seen_by(rank, {.ranks = 4, .length = 16, .window = 4});
    EXPECT_EQ(seen.computed, 2 * 8 * 8 + (rank == 0 ? 1 : 2) * 3 * 3) << rank;
    EXPECT_EQ(seen.empty_steps, rank == 0 || rank == 3 ? 2 : 1) << rank;
  }
  const Seen whole = seen_by(1, {.ranks = 4, .length = 16});
  EXPECT_EQ(whole.computed, 16 * 16 + 3 * 16 * 8) << "without a window";
}

RandomTraining draw_context(Draws& draws, uint64_t seed) {
  const bool ring = seed % 3 != 2;
  const int64_t size = seed == 0 ? 8 : ring ? draws.one_of<int64_t>({2, 3, 4}) : 2;
  const int64_t matrices = size == 2 ? draws.one_of<int64_t>({1, 2}) : 1;
  const int64_t batch_ranks = size * matrices <= 3 ? draws.one_of<int64_t>({1, 2}) : 1;
  std::vector<PluginUse> plugins = {context_parallel(size, ring ? "ring" : "all_to_all")};
  if (matrices > 1)
    plugins.push_back({"tensor_parallel", {{"size", matrices}, {"sequence", draws.sometimes()}}});
  plugins.push_back(some_data_parallelism(draws));
  add_some_plugins(draws, plugins);
  const int64_t groups = matrices * (ring ? 1 : size), heads = groups * draws.one_of<int64_t>({1, 2});
  RunSpec spec = small_spec(size * matrices * batch_ranks, plugins,
                            {{"vocab_size", draws.one_of<int>({37, 64})},
                             {"dim", heads * draws.one_of<int64_t>({4, 6})},
                             {"n_heads", heads},
                             {"n_kv_heads", draws.one_of<int64_t>({groups, heads})},
                             {"n_layers", draws.one_of<int>({1, 2})},
                             {"ffn_dim", draws.one_of<int>({13, 29})},
                             {"tie_embeddings", draws.sometimes()}});
  spec.train.seq_len = 2 * size * matrices * draws.one_of<int64_t>({1, 3});
  if (draws.sometimes()) spec.model["window"] = draws.one_of<int64_t>({2, 3, 5, 8, 13});
  spec.train.accumulation = draws.one_of<int64_t>({1, 2});
  return {spec, batch_ranks};
}

TEST(ContextParallel, RandomConfigurationsEqualOneProcess) {
  expect_equal_for_seeds(pool(), 18, draw_context);
}

TEST(ContextParallel, LowPrecisionErrorIsNoLargerThanOnOneProcess) {
  for (const char* kind : {"ring", "all_to_all"})
    for (const char* attention : {"", "flash_attention"}) {
      RunSpec spec = small_spec(
          2, {context_parallel(2, kind), {"ddp", Json::object()}, {"mixed_precision", Json::object()}});
      if (*attention != '\0') spec.plugins.push_back({attention, Json::object()});
      spec.train.dtype = "fp32";
      expect_equal_training(pool(), spec, one_process_of(spec, 1), 5e-3, false);
    }
}

/// A ring sends keys and values N - 1 times in the forward, and with their gradients in the backward. An
/// exchange sends q, k, v and the output once each way.
TEST(ContextParallel, SentBytesMatchTheory) {
  for (const int64_t ranks : {2, 4})
    for (const bool ring : {true, false}) {
      RunSpec spec =
          small_spec(ranks, {context_parallel(ranks, ring ? "ring" : "all_to_all"), {"ddp", Json::object()}},
                     {{"dim", 32}, {"n_heads", 8}, {"n_kv_heads", 4}});
      spec.train.seq_len = 32;
      spec.train.accumulation = 2;
      spec.train.warmup = spec.train.steps = 1;
      const Json result = train_on(pool(), {.spec = spec}).result;
      SCOPED_TRACE(result.at("collectives").dump());
      const double n = static_cast<double>(ranks), rows = 2 * 32 / n, layers = 3;
      const double keys = rows * 2 * 4 * 4 * 8, queries = rows * 2 * 8 * 4 * 8;
      EXPECT_NEAR(sent(result, "send"), ring ? layers * (n - 1) * 3 * keys : 0, 1);
      EXPECT_NEAR(sent(result, "all_to_all"), ring ? 0 : layers * (n - 1) / n * 2 * (keys + queries), 1);
      for (const char* collective : {"send", "all_to_all"})
        EXPECT_NEAR(theory(result, collective), sent(result, collective), 1);
    }
}

}  // namespace

/// A ring alone. Its kernels record how many sends had begun when they ran.
Json ring_job(const Ranks& ranks, const Json&) {
  RunSpec spec = small_spec(ranks.size, {context_parallel(ranks.size), {"ddp", Json::object()}});
  spec.train.seq_len = 2 * ranks.size;
  const auto session = RunSetup::open(spec, at::kCPU, ranks);
  session->connect();
  Group& group = session->mesh().group({"cp"});
  Json seen = {{"forward", Json::array()}, {"backward", Json::array()}};
  const auto sends = [&] {
    return session->groups().traffic().contains({"send", "cp"})
               ? session->groups().traffic().at({"send", "cp"}).calls
               : 0;
  };
  const AttentionForwardBackward plain = plain::attention_forward_backward();
  const AttentionForwardBackward noted = {
      [&](const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& args) {
        seen["forward"].push_back(sends());
        return plain.forward(q, k, v, args);
      },
      [&](const Tensor& gradient, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
          const Tensor& lse, const Tensor& lse_gradient, const AttentionArgs& args) {
        seen["backward"].push_back(sends());
        return plain.backward(gradient, q, k, v, out, lse, lse_gradient, args);
      }};
  const context_parallel::Ring ring(group, {.causal = true, .scale = 0.5, .halves = &noted});
  const Tensor q = at::randn({1, 2, 4, 4}).requires_grad_(), k = at::randn({1, 2, 4, 4}),
               v = at::randn({1, 2, 4, 4});
  ring(q, k, v).out.sum().backward();
  return seen;
}

namespace {
TEST(ContextParallel, KeysAndValuesAreSentWhileAKernelRuns) {
  for (const Json& seen : pool().run("ring", 4, {})) {
    ASSERT_FALSE(seen.contains("error")) << seen.dump();
    // The next keys and values are sent before each kernel except the last.
    EXPECT_EQ(seen.at("forward"), Json({1, 2, 3, 3}));
    // Three sends of keys and values again, and sends of gradients from the second kernel on.
    EXPECT_EQ(seen.at("backward"), Json({3 + 1, 3 + 2, 3 + 4, 3 + 5}));
  }
}

/// Activations are most of the memory. They fall by the number of ranks.
TEST(ContextParallel, EachRankKeepsItsShareOfTheActivations) {
  const auto peak = [](int64_t ranks) {
    std::vector<PluginUse> plugins = {{"fused_linear_cross_entropy", {{"chunk", 8}}},
                                      {"flash_attention", Json::object()}};
    if (ranks > 1) plugins.insert(plugins.end(), {context_parallel(ranks), {"ddp", Json::object()}});
    RunSpec spec =
        small_spec(ranks, plugins, {{"n_layers", 6}, {"dim", 32}, {"n_kv_heads", 4}, {"ffn_dim", 64}});
    spec.train.seq_len = 2048;
    spec.train.warmup = spec.train.steps = 1;
    return static_cast<double>(train_on(pool(), {.spec = spec}).peaks.front());
  };
  const double whole = peak(1);
  EXPECT_LT(peak(2), 0.56 * whole);
  EXPECT_LT(peak(4), 0.33 * whole);
}

/// Held-out sequences are cut like training sequences, and counted once.
TEST(ContextParallel, ValidationEqualsOneProcess) {
  const PluginUse ddp = {"ddp", Json::object()}, cut = {"tensor_parallel", {{"size", 2}}};
  const std::vector<std::vector<PluginUse>> stacks = {{context_parallel(2), ddp},
                                                      {context_parallel(2, "all_to_all"), cut, ddp}};
  for (const auto& stack : stacks) {
    RunSpec spec = small_spec(std::ssize(stack) > 2 ? 4 : 2, stack, {{"n_kv_heads", 4}});
    spec.validate.every = 4;
    spec.validate.sequences = 5;
    spec.train.micro_batch = 2;  // one row is left for the last batch
    const auto many = train_on(pool(), {.spec = spec});
    const auto one = train_on(pool(), {.spec = one_process_of(spec, 1)});
    ASSERT_EQ(validation_losses(many).size(), 3U);
    EXPECT_LT(difference(validation_losses(many), validation_losses(one)), 1e-9);
    EXPECT_LT(difference(many.losses, one.losses), 1e-9);
  }
}

TEST(ContextParallel, PeakIsPredicted) {
  for (const char* kind : {"ring", "all_to_all"}) {
    RunSpec spec = small_spec(2, {context_parallel(2, kind), {"ddp", Json::object()}});
    spec.train.seq_len = 128;
    expect_predicted_peak(pool(), spec);
  }
}

TEST(ContextParallel, SavedStateContinuesOnOtherRanks) {
  const auto spec_of = [](int64_t ranks, std::vector<PluginUse> plugins) {
    RunSpec spec = small_spec(ranks, std::move(plugins));
    spec.train.micro_batch = 2;
    return spec;
  };
  const PluginUse ddp = {"ddp", Json::object()}, fsdp = {"fsdp", Json::object()};
  const RunSpec one = spec_of(1, {}), many = spec_of(2, {context_parallel(2), fsdp});
  for (const RunSpec& to : {one, spec_of(3, {context_parallel(3), ddp})})
    expect_state_continues(pool(), many, to, one);
}

TEST(ContextParallel, ShapesThatCannotBeCutAreRefused) {
  const auto refusal = [](const RunSpec& spec) { return refusal_of(pool(), spec); };
  const PluginUse ddp = {"ddp", Json::object()};
  RunSpec odd = small_spec(2, {context_parallel(2), ddp});
  odd.train.seq_len = 6;
  EXPECT_THAT(refusal(odd), is_error("unsupported", "6 positions", "4 equal parts"));
  EXPECT_THAT(refusal(small_spec(4, {context_parallel(4, "all_to_all"), ddp})),
              is_error("unsupported", "4 ranks", "2 heads", "'k_proj'"));
  EXPECT_THAT(refusal(small_spec(2, {context_parallel(2)})),
              is_error("wrong_ranks", "2 data-parallel ranks"));
  EXPECT_THAT(refusal(small_spec(2, {context_parallel(2), ddp, {"lora", {{"dropout", 0.1}}}})),
              is_error("unsupported", "dropout"));
}
const bool kRingJob = add_jobs({{"ring", ring_job}});
}  // namespace
}  // namespace optrush::testing
