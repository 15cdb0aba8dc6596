// Sharded training on several ranks equals one process. The tests use the real trainer with every stage and
// random configurations and stacks. Bytes sent and held equal theory. Another number of ranks can continue
// from a saved state.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "exactness.h"
#include "spec/spec_json.h"
#include "worker/predict.h"

namespace optrush::testing {
namespace {
PluginUse fsdp(Json options = Json::object()) { return {"fsdp", std::move(options)}; }

RunSpec without_fsdp(const RunSpec& spec) { return one_process_of(spec, spec.train.world_size); }

void expect_equals_one_process(const RunSpec& spec, double tolerance, bool states = true) {
  expect_equal_training(pool(), spec, without_fsdp(spec), tolerance, states);
}

/// A text with all drawn choices, to reproduce a failure.
struct Drawn {
  RunSpec spec;
  std::string what;
};

Drawn draw_shards(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto one_of = [&]<class T>(std::vector<T> choices) {
    return choices[std::uniform_int_distribution<size_t>(0, choices.size() - 1)(random)];
  };
  const int64_t ranks = seed == 0 ? 8 : one_of(std::vector<int64_t>{2, 3, 4});
  Json options = {{"stage", one_of(std::vector<int>{1, 2, 3, 3})},
                  {"prefetch", one_of(std::vector<int>{0, 1, 2})},
                  {"limit", one_of(std::vector<int>{1, 2, 4})}};
  if (options["stage"] == 3) options["reshard_after_forward"] = one_of(std::vector<int>{0, 1}) == 1;
  if (ranks % 2 == 0 && one_of(std::vector<int>{0, 1, 1}) == 0) options["shard_ranks"] = ranks == 8 ? 4 : 2;
  std::vector<PluginUse> plugins = {fsdp(options)};
  if (one_of(std::vector<int>{0, 1, 1}) == 0)
    plugins.push_back({"lora", {{"rank", 3}, {"target_modules", {"q_proj", "down_proj"}}}});
  if (one_of(std::vector<int>{0, 1}) == 0) plugins.push_back({"clip_grad_norm", {{"max_norm", 0.3}}});
  if (one_of(std::vector<int>{0, 1}) == 0) plugins.push_back({"fused_adamw", Json::object()});
  if (one_of(std::vector<int>{0, 1}) == 0)
    plugins.push_back(
        {"activation_checkpointing",
         {{"policy", one_of(std::vector<std::string>{"full", "every", "selective", "budget", "offload"})}}});
  const int64_t heads = one_of(std::vector<int64_t>{2, 3}), head = one_of(std::vector<int64_t>{6, 10});
  RunSpec spec = small_spec(ranks, plugins,
                            {{"vocab_size", one_of(std::vector<int>{37, 61, 64})},
                             {"dim", heads * head},
                             {"n_heads", heads},
                             {"n_kv_heads", one_of(std::vector<int64_t>{1, heads})},
                             {"n_layers", one_of(std::vector<int>{1, 2, 3})},
                             {"ffn_dim", one_of(std::vector<int>{13, 29, 48})},
                             {"tie_embeddings", one_of(std::vector<int>{0, 1}) == 1}});
  spec.train.accumulation = one_of(std::vector<int64_t>{1, 2, 3});
  spec.train.micro_batch = one_of(std::vector<int64_t>{1, 2});
  spec.train.seed = seed + 1;
  return {spec, "seed " + std::to_string(seed) + ": " + to_json(spec).dump()};
}

TEST(Fsdp, RandomConfigurationsEqualOneProcess) {
  for (uint64_t seed = 0; seed < 24; ++seed) {
    const auto [spec, what] = draw_shards(seed);
    SCOPED_TRACE(what);
    ASSERT_NO_THROW(expect_equals_one_process(spec, 1e-9));
    if (HasFailure()) return;
  }
}

TEST(Fsdp, EveryStageEqualsOneProcessWithEveryPolicyOfCheckpointing) {
  for (const char* policy : {"full", "every", "selective", "budget", "offload"})
    for (const int stage : {1, 2, 3}) {
      SCOPED_TRACE(std::string(policy) + ", stage " + std::to_string(stage));
      expect_equals_one_process(
          small_spec(2, {fsdp({{"stage", stage}}), {"activation_checkpointing", {{"policy", policy}}}}),
          1e-9);
    }
}

/// Parameters that are unused in some steps, on some or all ranks, are updated and decayed as in one process.
void expect_unused_parameters_equal_one_process(int64_t ranks, int64_t batch_ranks,
                                                std::vector<PluginUse> plugins, double tolerance = 1e-9,
                                                int64_t accumulation = 1) {
  RunSpec spec = small_spec(ranks, std::move(plugins));
  spec.train.accumulation = accumulation;
  spec.train.weight_decay = 5;
  spec.train.micro_batch = 1;
  SCOPED_TRACE(to_json(spec).at("plugins").dump());
  expect_equal_training(pool(), spec, one_process_of(spec, batch_ranks), tolerance, /*states=*/true,
                        /*unused_parameters=*/true);
}

TEST(UnusedParameters, EqualOneProcessUnderEveryStrategy) {
  const PluginUse ddp{"ddp", {{"bucket_mb", 0.008}, {"first_bucket_mb", 0.001}}},
      tp{"tensor_parallel", {{"size", 2}}};
  expect_unused_parameters_equal_one_process(3, 3, {ddp});
  for (const int stage : {1, 2, 3})
    expect_unused_parameters_equal_one_process(3, 3, {fsdp({{"stage", stage}})});
  expect_unused_parameters_equal_one_process(4, 4, {fsdp({{"shard_ranks", 2}})});
  expect_unused_parameters_equal_one_process(2, 1, {tp});
  expect_unused_parameters_equal_one_process(4, 2, {tp, ddp});
  expect_unused_parameters_equal_one_process(4, 2, {tp, fsdp()});
  expect_unused_parameters_equal_one_process(2, 1, {{"pipeline_parallel", Json::object()}});
  expect_unused_parameters_equal_one_process(2, 1, {{"context_parallel", Json::object()}, ddp});
}

TEST(UnusedParameters, EqualOneProcessWithOptimizersAndAccumulation) {
  for (const PluginUse& strategy : {PluginUse{"ddp", Json::object()}, fsdp({{"stage", 2}}), fsdp()}) {
    expect_unused_parameters_equal_one_process(2, 2, {strategy}, 1e-9, /*accumulation=*/2);
    expect_unused_parameters_equal_one_process(2, 2, {strategy, {"optimizer_in_backward", Json::object()}});
    expect_unused_parameters_equal_one_process(2, 2, {strategy, {"clip_grad_norm", {{"max_norm", 0.3}}}});
    expect_unused_parameters_equal_one_process(2, 2, {strategy, {"fused_adamw", Json::object()}});
    expect_unused_parameters_equal_one_process(2, 2, {strategy, {"muon", Json::object()}}, 1e-6);
    expect_unused_parameters_equal_one_process(2, 2,
                                               {strategy, {"activation_checkpointing", Json::object()}});
  }
}

TEST(UnusedParameters, EqualOneProcessWithMomentsInEightBits) {
  for (const PluginUse& strategy : {PluginUse{"ddp", Json::object()}, fsdp()}) {
    RunSpec spec = small_spec(2, {strategy, {"adamw_8bit", Json::object()}});
    spec.train.dtype = "fp32";
    spec.train.weight_decay = 5;
    expect_equal_training(pool(), spec, one_process_of(spec, 2), 2e-3, /*states=*/false,
                          /*unused_parameters=*/true);
  }
}

/// Units that return another unit's tensor: their backward begins at the right place.
TEST(Fsdp, UnitsThatReturnATensorOfAnotherUnitEqualOneProcess) {
  const auto trained = [](const RunSpec& spec) {
    return train_on(pool(), {.spec = spec, .passes = true, .save = "", .load = ""});
  };
  const std::vector<PluginUse> alone, checkpointing = {{"activation_checkpointing", Json::object()}};
  for (const auto& others : {alone, checkpointing})
    for (const Json& options : {Json{{"stage", 1}}, Json{{"stage", 2}}, Json{{"stage", 3}, {"prefetch", 2}},
                                Json{{"stage", 3}, {"reshard_after_forward", false}}}) {
      RunSpec spec = small_spec(2, {fsdp(options)});
      spec.plugins.insert(spec.plugins.end(), others.begin(), others.end());
      spec.train.accumulation = 2;
      SCOPED_TRACE(spec.plugins.back().name + options.dump());
      const auto several = trained(spec), one = trained(without_fsdp(spec));
      EXPECT_LT(difference(several.losses, one.losses), 1e-9);
      EXPECT_LT(difference(several.norms, one.norms), 1e-9);
    }
}

/// Ranks end a run together, at the same step as one process, and generate the same samples.
TEST(Tuning, RanksStopAndSampleLikeOneProcess) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 60; ++i) text += "what is learned here is of no use there; ";
  write_file(folder / "text.txt", text);
  write_file(folder / "other.txt", std::string(400, 'z'));
  for (const PluginUse& strategy : {PluginUse{"ddp", Json::object()}, fsdp(), fsdp({{"stage", 2}})}) {
    RunSpec spec = small_spec(2, {strategy}, {{"vocab_size", 256}});
    spec.data = {.kind = "text", .path = folder / "text.txt", .extensions = {}};
    spec.validate = {.every = 2, .sequences = 4};
    spec.validate.data = {.kind = "text", .path = folder / "other.txt", .extensions = {}};
    spec.validate.patience = 2;
    spec.train.steps = 60;
    spec.train.micro_batch = 2;
    spec.sample = {.prompts = {"what is", "use "}, .tokens = 4};
    SCOPED_TRACE(strategy.name);
    const auto several = train_on(pool(), {.spec = spec, .save = "", .load = ""});
    const auto one = train_on(pool(), {.spec = without_fsdp(spec), .save = "", .load = ""});
    ASSERT_LT(one.losses.size(), 60U);
    EXPECT_LT(difference(several.losses, one.losses), 1e-9);
    EXPECT_EQ(several.result.at("sample"), one.result.at("sample"));
  }
}

/// Shards hold norms and matrices together. No rank has all of them.
TEST(MovedElements, AllRanksGiveOneWarning) {
  for (const int stage : {1, 3}) {
    RunSpec spec = small_spec(3, {fsdp({{"stage", stage}})});
    spec.train.dtype = "bf16";
    spec.train.lr = 1e-6;
    const auto warnings = train_on(pool(), {.spec = spec, .save = "", .load = ""})
                              .result.at("warnings")
                              .get<std::vector<std::string>>();
    ASSERT_EQ(warnings.size(), 1U) << ::testing::PrintToString(warnings);
    EXPECT_THAT(warnings.front(),
                ::testing::AllOf(::testing::HasSubstr("0 % of the elements of vectors (norms, biases) and "),
                                 ::testing::HasSubstr(" of the elements of matrices (mean of 8 updates)")));
  }
}

TEST(Fsdp, LossesInSinglePrecisionEqualOneProcess) {
  for (const int stage : {1, 2, 3}) {
    RunSpec spec = small_spec(3, {fsdp({{"stage", stage}})});
    spec.train.dtype = "fp32";
    expect_equals_one_process(spec, 1e-5, /*states=*/false);
  }
}

RunSpec in_fewer_bits(PluginUse precision, Json options, int64_t accumulation) {
  RunSpec spec = small_spec(2, {fsdp(std::move(options)), std::move(precision)});
  spec.train.dtype = "fp32";
  spec.train.accumulation = accumulation;
  return spec;
}

TEST(Fsdp, LowPrecisionErrorIsNoLargerThanOnOneProcess) {
  for (const int stage : {1, 2, 3}) {
    const Json options = {{"stage", stage}};
    expect_equals_one_process(in_fewer_bits({"mixed_precision", Json::object()}, options, 2), 1e-4, false);
    expect_equals_one_process(in_fewer_bits({"mixed_precision", {{"dtype", "fp16"}}}, options, 2), 2e-3,
                              false);
    expect_equals_one_process(in_fewer_bits({"bf16_weights", Json::object()}, options, 2), 1e-2, false);
    const Json all_bf16 = {{"stage", stage}, {"parameter_type", "bf16"}, {"reduce_type", "bf16"}};
    expect_equals_one_process(in_fewer_bits({"mixed_precision", Json::object()}, all_bf16, 1), 2e-2, false);
  }
}

/// Sizes at which padding is small.
const Json kWide = {
    {"vocab_size", 256}, {"dim", 64}, {"ffn_dim", 160}, {"n_layers", 4}, {"tie_embeddings", false}};

double parameter_bytes(const RunSpec& spec) {
  const Json& m = spec.model;
  const double d = m["dim"], f = m["ffn_dim"],
               kv = d * m["n_kv_heads"].get<double>() / m["n_heads"].get<double>();
  const double block = 2 * d * d + 2 * d * kv + 3 * d * f + 2 * d;
  const double all = m["n_layers"].get<double>() * block + d + 2 * m["vocab_size"].get<double>() * d;
  return all * (spec.train.dtype == "fp64" ? 8 : 4);
}

TEST(Fsdp, SentBytesMatchTheory) {
  const double k = 3;
  for (const int64_t ranks : {2, 4})
    for (const auto& [options, gathers, sums] : std::vector<std::tuple<Json, double, double>>{
             {{{"stage", 1}}, 1, 1},
             {{{"stage", 2}}, 1, k},
             {{{"stage", 3}}, 2 * k, k},
             {{{"stage", 3}, {"reshard_after_forward", false}}, k, k},
             {{{"stage", 3}, {"prefetch", 0}}, 2 * k, k}}) {
      RunSpec spec = small_spec(ranks, {fsdp(options)}, kWide);
      spec.train.accumulation = static_cast<int64_t>(k);
      spec.train.warmup = spec.train.steps = 1;
      const Json result = train_on(pool(), {.spec = spec}).result;
      const double n = static_cast<double>(ranks), psi = parameter_bytes(spec) * (n - 1) / n;
      SCOPED_TRACE(options.dump() + " " + result.at("collectives").dump());
      EXPECT_NEAR(sent(result, "all_gather"), gathers * psi, 0.01 * gathers * psi);
      EXPECT_NEAR(sent(result, "reduce_scatter"), sums * psi, 0.01 * sums * psi);
      EXPECT_NEAR(theory(result, "all_gather"), gathers * psi, 1e-6 * psi);
      EXPECT_NEAR(theory(result, "reduce_scatter"), sums * psi, 1e-6 * psi);
    }
}

/// One kernel for each collective, also in a plan, which sends nothing.
TEST(Fsdp, APlanCountsTheCollectivesOfAStep) {
  for (const int stage : {2, 3}) {
    RunSpec spec = small_spec(2, {fsdp({{"stage", stage}})}, kWide);
    std::string why_not;
    const auto planned = forecast(spec, at::kCPU, &why_not);
    ASSERT_TRUE(planned) << why_not;
    const Json ran = train_on(pool(), {.spec = spec}).result.at("costs").at("operators");
    for (const char* collective : {"optrush::all_gather", "optrush::reduce_scatter"}) {
      SCOPED_TRACE(collective);
      ASSERT_TRUE(ran.contains(collective)) << ran.dump();
      EXPECT_GE(ran.at(collective).at("launches"), 6) << "four blocks, the embedding and the head";
      EXPECT_EQ(planned->costs.at("operators").at(collective), ran.at(collective));
    }
  }
}

TEST(Fsdp, HybridShardingSendsPiecesBetweenCopies) {
  RunSpec spec = small_spec(4, {fsdp({{"shard_ranks", 2}})}, kWide);
  spec.train.warmup = spec.train.steps = 1;
  const Json result = train_on(pool(), {.spec = spec}).result;
  const double psi = parameter_bytes(spec);
  EXPECT_NEAR(sent(result, "all_gather"), 2 * psi / 2, 0.01 * psi);
  EXPECT_NEAR(sent(result, "reduce_scatter"), psi / 2, 0.01 * psi);
  EXPECT_NEAR(sent(result, "all_reduce"), psi / 2, 0.01 * psi);
  EXPECT_EQ(result.at("mesh"), Json::parse(R"([{"dim": "dp", "size": 2}, {"dim": "fsdp", "size": 2}])"));
}

TEST(Fsdp, MixedPrecisionGathersMatricesInHalfTheBytes) {
  RunSpec spec = small_spec(2, {fsdp(), {"mixed_precision", Json::object()}}, kWide);
  spec.train.dtype = "fp32";
  spec.train.warmup = spec.train.steps = 1;
  const Json result = train_on(pool(), {.spec = spec}).result;
  // The embedding is gathered in its own type. Gradients are summed in the type of the masters.
  const double psi = parameter_bytes(spec), embedding = 256 * 64 * 4;
  EXPECT_NEAR(sent(result, "all_gather"), 2 * ((psi - embedding) / 2 + embedding) / 2, 0.02 * psi);
  EXPECT_NEAR(sent(result, "reduce_scatter"), psi / 2, 0.01 * psi);
}

/// Bytes of tensors at a rank's peak by theory: the state, and in the backward of a block its gathered
/// tensors and pending collectives. Autograd makes a matrix's gradient and a copy in the matrix's order
/// before it is taken.
TEST(Fsdp, PeakMemoryMatchesTheory) {
  const Json model = {{"vocab_size", 64}, {"dim", 192},    {"n_heads", 4},           {"n_kv_heads", 4},
                      {"ffn_dim", 512},   {"n_layers", 6}, {"tie_embeddings", false}};
  const double d = 192, f = 512, n = 4, bytes = 4;
  const double block = (4 * d * d + 3 * d * f + 2 * d) * bytes, widest = d * f * bytes;
  for (const int stage : {1, 2, 3}) {
    RunSpec spec = small_spec(4, {fsdp({{"stage", stage}}), {"fused_adamw", Json::object()}}, model);
    spec.train.dtype = "fp32";
    spec.train.accumulation = stage == 3 ? 1 : 2;
    spec.train.seq_len = 4;
    spec.train.steps = 3;
    const auto trained = train_on(pool(), {.spec = spec});
    const double psi = parameter_bytes(spec);
    const double state = 3 * psi / n;  // parameters and both moments
    // A pending sum on a CPU: the sent tensor, the received tensor, and the piece.
    const double sum = 2 * block + block / n;
    // The second block is in its backward: its gradients, and the gradients of the block before it.
    const double reducing = block + sum + 2 * widest;
    // At stage 3 two blocks are gathered. Gloo has a copy of the pending one, which may be freed before the
    // peak.
    const double expected = stage == 1   ? state + 2 * psi + block + block / n + 2 * widest
                            : stage == 2 ? state + psi + psi / n + reducing
                                         : state + 3 * block + (psi - 3 * block) / n + reducing;
    const double copy = stage == 3 ? block : 0;
    for (const int64_t peak : trained.peaks) {
      EXPECT_LT(static_cast<double>(peak), 1.05 * expected) << "stage " << stage;
      EXPECT_GT(static_cast<double>(peak), 0.95 * expected - copy) << "stage " << stage;
    }
  }
}

TEST(Fsdp, SavedStateContinuesOnOtherRanks) {
  struct Mesh {
    int64_t ranks;
    Json options;
  };
  const std::vector<std::pair<Mesh, Mesh>> cases = {
      {{4, {{"stage", 3}}}, {2, {{"stage", 1}}}},
      {{2, {{"stage", 2}}}, {4, {{"stage", 3}, {"shard_ranks", 2}}}},
      {{4, {{"shard_ranks", 2}}}, {1, {{"stage", 3}}}},
      {{1, Json::object()}, {4, {{"prefetch", 2}}}}};
  for (const auto& [from, to] : cases) {
    const auto spec_of = [](const Mesh& mesh) {
      RunSpec spec = small_spec(mesh.ranks, {fsdp(mesh.options), {"clip_grad_norm", {{"max_norm", 0.5}}}});
      spec.train.micro_batch = 4 / mesh.ranks;
      return spec;
    };
    expect_state_continues(pool(), spec_of(from), spec_of(to), without_fsdp(spec_of(from)),
                           /*norm_tolerance=*/1e-9);
  }
}

/// Held-out logits of one row have 5,856 bytes. A gathered block has more. The indices that ddp's reducer
/// sends have 120.
void expect_equal_between_steps(const std::vector<std::vector<int64_t>>& with,
                                const std::vector<std::vector<int64_t>>& without) {
  ASSERT_EQ(with.size(), without.size());
  for (size_t rank = 0; rank < with.size(); ++rank) {
    ASSERT_EQ(with[rank].size(), without[rank].size());
    for (size_t step = 0; step < with[rank].size(); ++step)
      EXPECT_NEAR(with[rank][step], without[rank][step], 1024) << "rank " << rank << ", before step " << step;
  }
}

/// Ranks that share held-out sequences give the validation loss of one process. Validation does not change
/// their steps.
void expect_validates_as_one_process(RunSpec spec) {
  SCOPED_TRACE(spec.plugins.front().name + spec.plugins.front().options.dump());
  const auto without = train_on(pool(), {.spec = spec, .save = "", .load = ""});
  spec.validate.every = 4;
  spec.validate.sequences = 7;  // the last batch has a different number of rows on each rank
  const auto with = train_on(pool(), {.spec = spec, .save = "", .load = ""});
  RunSpec alone = on_one_process(spec, spec.train.world_size);
  alone.plugins.clear();
  const auto one = train_on(pool(), {.spec = alone, .save = "", .load = ""});
  EXPECT_EQ(validation_losses(with).size(), 3U);
  EXPECT_LT(difference(validation_losses(with), validation_losses(one)), 1e-9);
  EXPECT_EQ(with.losses, without.losses);
  EXPECT_EQ(with.norms, without.norms);
  EXPECT_EQ(with.result.at("collectives"), without.result.at("collectives"));
  EXPECT_EQ(with.result.value("counters", Json()), without.result.value("counters", Json()));
  expect_equal_between_steps(with.held, without.held);
}

TEST(Validation, RanksEqualOneProcess) {
  for (const Json& options : {Json{{"stage", 1}}, Json{{"stage", 2}}, Json{{"stage", 3}, {"prefetch", 2}},
                              Json{{"stage", 3}, {"reshard_after_forward", false}}}) {
    RunSpec spec = small_spec(2, {fsdp(options)});
    spec.train.accumulation = 2;
    expect_validates_as_one_process(spec);
  }
  expect_validates_as_one_process(small_spec(4, {fsdp({{"shard_ranks", 2}})}));
  for (const int64_t accumulation : {1, 3}) {
    RunSpec spec = small_spec(3, {{"ddp", Json::object()}});
    spec.train.accumulation = accumulation;
    spec.train.micro_batch = 2;
    expect_validates_as_one_process(spec);
  }
}

TEST(Fsdp, CountsGathers) {
  // Embedding, three blocks and the head (tied to the embedding).
  const auto counted = [](const Json& options, int64_t accumulation) {
    RunSpec spec = small_spec(2, {fsdp(options)});
    spec.train.accumulation = accumulation;
    const Json counters = train_on(pool(), {.spec = spec, .save = "", .load = ""}).result.at("counters");
    return counters.at("fsdp").at(0).at("value").get<double>();
  };
  const double once = counted({{"stage", 1}}, 1);
  EXPECT_EQ(counted({{"stage", 1}}, 3), once);  // gathered for the whole step
  EXPECT_GT(counted({{"stage", 3}}, 1), once);
  EXPECT_EQ(counted({{"stage", 3}}, 3), 3 * counted({{"stage", 3}}, 1));
}

TEST(Fsdp, RanksThatDoNotDivideIntoShardsAreRefused) {
  EXPECT_THAT(
      [] {
        train_on(pool(), {.spec = small_spec(3, {fsdp({{"shard_ranks", 2}})})});
      },
      ::testing::ThrowsMessage<std::runtime_error>(::testing::HasSubstr("the mesh (fsdp 2) has 2 places")));
}
}  // namespace
}  // namespace optrush::testing
