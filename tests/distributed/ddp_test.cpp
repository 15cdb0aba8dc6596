// Distributed data parallelism. With the real trainer, several ranks equal one process with their
// micro-batches one after the other. Also: bytes sent, the time of sends, and memory.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/temporary_folder.h"
#include "optrush/advanced/data_parallel.h"
#include "spec/spec_json.h"
#include "support/error_of.h"
#include "support/training.h"
#include "train/train_step.h"
#include "trained_ranks.h"
#include "worker/predict.h"

namespace optrush::testing {
namespace {
using ::testing::HasSubstr;

/// Buckets are much smaller than the model, so there are many.
PluginUse ddp(const Json& options = Json::object()) {
  Json all = {{"bucket_mb", 0.008}, {"first_bucket_mb", 0.001}};
  all.update(options);
  return {"ddp", all};
}

RunSpec ddp_spec(int64_t ranks, std::vector<PluginUse> plugins = {}) {
  RunSpec spec = nano_spec(std::move(plugins));
  spec.train.world_size = ranks;
  spec.train.micro_batch = 1;
  spec.train.warmup = 2;
  spec.train.steps = 8;
  spec.train.dtype = "fp64";
  return spec;
}

RunSpec with_ddp(RunSpec spec, const Json& options = Json::object()) {
  spec.plugins.push_back(ddp(options));
  return spec;
}

/// The same training on one process.
RunSpec reference(RunSpec spec) {
  std::erase_if(spec.plugins, [](const PluginUse& use) { return use.name == "ddp"; });
  return on_one_process(spec, spec.train.world_size);
}

Json all_reduce_of(const TrainedRanks& trained) {
  for (const Json& collective : trained.result.at("collectives"))
    if (collective.at("name") == "all_reduce" && collective.at("group") == "dp") return collective;
  return nullptr;
}

/// The bytes that a rank sends by theory: 2 (N - 1) / N of the gradients.
double theory_of_ddp(const TrainedRanks& trained, int64_t ranks) {
  const double n = static_cast<double>(ranks);
  return 2 * (n - 1) / n * trained.result.at("memory").at("parts").at("gradients").get<double>();
}

void expect_equal(const RunSpec& spec, bool holes, double tolerance) {
  SCOPED_TRACE(to_json(spec).dump());
  const TemporaryFolder folder;
  const int64_t ranks = spec.train.world_size;
  const auto several = train_on(pool(), {.spec = spec, .holes = holes, .save = folder / "several"});
  const auto one = train_on(pool(), {.spec = reference(spec), .holes = holes, .save = folder / "one"});
  EXPECT_LT(difference(several.losses, one.losses), tolerance);
  EXPECT_LT(difference(several.norms, one.norms), tolerance);
  const auto [apart, where] = difference_of_states(folder / "several", folder / "one");
  EXPECT_LT(apart, tolerance) << where;
  const Json sent = all_reduce_of(several);
  EXPECT_NEAR(sent.at("theory_bytes").get<double>(), theory_of_ddp(several, ranks), 1);
  constexpr double kNormOfClipping = 16;
  EXPECT_NEAR(sent.at("sent_bytes").get<double>(), theory_of_ddp(several, ranks),
              0.01 * theory_of_ddp(several, ranks) + kNormOfClipping);
}

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  int64_t between(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(engine_);
  }
  bool one_in(int64_t n) { return between(1, n) == 1; }

 private:
  std::mt19937 engine_;
};

RunSpec random_spec(Random& random, int64_t ranks) {
  RunSpec spec = ddp_spec(ranks);
  const int64_t kv_heads = random.between(1, 2), heads = kv_heads * random.between(1, 2);
  spec.model = validate_model("llama",
                              {{"vocab_size", 2 * random.between(20, 40) + 1},
                               {"dim", heads * 2 * random.between(2, 7)},
                               {"n_layers", random.between(1, 3)},
                               {"n_heads", heads},
                               {"n_kv_heads", kv_heads},
                               {"ffn_dim", 2 * random.between(8, 25) + 1},
                               {"tie_embeddings", random.one_in(2)}},
                              "test");
  spec.train.seq_len = random.between(5, 19);
  spec.train.micro_batch = random.between(1, 2);
  spec.train.accumulation = random.between(1, 3);
  if (random.one_in(3)) spec.plugins.push_back({"lora", {{"rank", random.between(1, 5)}}});
  if (random.one_in(2)) spec.plugins.push_back({"clip_grad_norm", {{"max_norm", 0.3}}});
  switch (random.between(0, 4)) {
    case 0:
      spec.plugins.push_back({"activation_checkpointing", Json::object()});
      break;
    case 1:
      spec.plugins.push_back({"activation_checkpointing", {{"policy", "selective"}}});
      break;
    case 2:
      spec.plugins.push_back({"activation_checkpointing", {{"policy", "every"}, {"every", 2}}});
      break;
    default:
      break;
  }
  return with_ddp(spec, {{"bucket_mb", 0.001 * static_cast<double>(random.between(1, 40))}});
}

class DdpRandom : public ::testing::TestWithParam<int64_t> {};

TEST_P(DdpRandom, EqualsOneProcess) {
  Random random(static_cast<uint32_t>(GetParam()));
  expect_equal(random_spec(random, 2 + GetParam() % 3), /*holes=*/random.one_in(2), 1e-9);
}
INSTANTIATE_TEST_SUITE_P(Seeds, DdpRandom, ::testing::Range<int64_t>(0, 12));

TEST(Ddp, EightRanksEqualOneProcess) { expect_equal(with_ddp(ddp_spec(8)), /*holes=*/true, 1e-9); }

TEST(Ddp, LossesInSinglePrecisionEqualOneProcess) {
  RunSpec spec = with_ddp(ddp_spec(3, {{"fused_adamw", Json::object()}}));
  spec.train.dtype = "fp32";
  const auto several = train_on(pool(), {.spec = spec, .holes = true, .save = {}, .load = {}});
  const auto one = train_on(pool(), {.spec = reference(spec), .holes = true, .save = {}, .load = {}});
  EXPECT_LT(difference(several.losses, one.losses), 1e-5);
}

// An overflow on any rank counts on all: they skip the same steps and find the same scale.
TEST(Ddp, LossScalingSkipsTheSameSteps) {
  RunSpec spec = with_ddp(ddp_spec(2, {{"mixed_precision", {{"dtype", "fp16"}, {"initial_scale", 1e7}}}}));
  spec.train.dtype = "fp32";
  const auto several = train_on(pool(), {.spec = spec, .holes = true, .save = {}, .load = {}});
  const auto one = train_on(pool(), {.spec = reference(spec), .holes = true, .save = {}, .load = {}});
  EXPECT_LT(difference(several.losses, one.losses), 1e-3);
  ASSERT_EQ(several.norms.size(), one.norms.size());
  EXPECT_EQ(one.norms.front(), -1);  // skipped
  for (size_t i = 0; i < one.norms.size(); ++i) EXPECT_EQ(several.norms[i] < 0, one.norms[i] < 0) << i;
}

// Gradients of bf16 weights accumulate in fp32 over micro-batches, and are summed over the ranks in fp32.
TEST(Ddp, ReducesGradientsInTheirAccumulationType) {
  for (const int64_t accumulation : {1, 2}) {
    RunSpec spec = with_ddp(ddp_spec(2, {{"bf16_weights", Json::object()}}));
    spec.train.dtype = "fp32";
    spec.train.accumulation = accumulation;
    const auto several = train_on(pool(), {.spec = spec});
    const auto one = train_on(pool(), {.spec = reference(spec)});
    EXPECT_LT(std::abs(several.norms[0] / one.norms[0] - 1), accumulation == 1 ? 5e-3 : 1e-5);
    EXPECT_LT(difference(several.losses, one.losses), 2e-2);
    EXPECT_NEAR(all_reduce_of(several).at("sent_bytes").get<double>(), theory_of_ddp(several, 2),
                0.01 * theory_of_ddp(several, 2));
  }
}

TEST(Ddp, CompressionHalvesTheBytesAndRoundsTheGradients) {
  RunSpec spec = ddp_spec(4);
  spec.train.dtype = "fp32";
  const auto plain = train_on(pool(), {.spec = with_ddp(spec)});
  const auto compressed = train_on(pool(), {.spec = with_ddp(spec, {{"compress", "bf16"}})});
  EXPECT_EQ(all_reduce_of(compressed).at("sent_bytes").get<double>(),
            all_reduce_of(plain).at("sent_bytes").get<double>() / 2);
  EXPECT_EQ(all_reduce_of(compressed).at("theory_bytes"), all_reduce_of(compressed).at("sent_bytes"));
  EXPECT_EQ(compressed.losses.front(), plain.losses.front());
  const double first = std::abs(compressed.norms.front() / plain.norms.front() - 1);
  EXPECT_GT(first, 0);
  EXPECT_LT(first, 1e-2);
  EXPECT_LT(difference(compressed.losses, plain.losses), 1e-2);
}

// Between steps and in a forward there is one copy of the gradients, in the buckets.
TEST(Ddp, KeepsOneCopyOfTheGradients) {
  RunSpec spec = ddp_spec(2);
  spec.model["vocab_size"] = 1024;
  spec.model["ffn_dim"] = 256;
  spec.train.accumulation = 2;  // so one process also has gradients during the second forward
  RunSpec alone = spec;
  alone.train.world_size = 1;
  const auto several = train_on(pool(), {.spec = with_ddp(spec)});
  const auto one = train_on(pool(), {.spec = alone});
  const auto gradients = several.result.at("memory").at("parts").at("gradients").get<double>();
  for (const int64_t peak : several.peaks)
    EXPECT_NEAR(static_cast<double>(peak), static_cast<double>(one.peaks.front()), 0.05 * gradients);
}

TEST(Ddp, ForecastOfARankMatchesItsMeasuredPeak) {
  RunSpec spec = with_ddp(ddp_spec(2));
  spec.model["vocab_size"] = 1024;
  spec.model["ffn_dim"] = 256;
  spec.train.dtype = "fp32";
  std::string why_not;
  const auto planned = forecast(spec, at::kCPU, &why_not);
  ASSERT_TRUE(planned) << why_not;
  const auto trained = train_on(pool(), {.spec = spec});
  const auto peak = static_cast<double>(trained.peaks.front());
  EXPECT_NEAR(planned->memory.peak, peak, 0.05 * peak);
}

TEST(Ddp, FlopsPerTokenEqualOneProcess) {
  const auto operations = [](const RunSpec& spec) {
    return train_on(pool(), {.spec = spec}).result.at("flops_per_token").at("hfu").get<double>();
  };
  for (const int64_t ranks : {2, 4}) {
    const RunSpec spec = with_ddp(ddp_spec(ranks));
    EXPECT_DOUBLE_EQ(operations(spec), operations(reference(spec)));
  }
}

TEST(Ddp, SingleProcessIsUnchanged) {
  Trained trained(with_ddp(ddp_spec(1)));
  EXPECT_EQ(trained.session().recipe().data_parallel.base().plugin, "plain");
  EXPECT_EQ(losses(trained.train()), losses(Trained(ddp_spec(1)).train()));
}

TEST(Ddp, RefusesPluginsThatRecordAStep) {
  const RunSpec spec = with_ddp(ddp_spec(2, {{"cuda_graphs", Json::object()}}));
  EXPECT_THAT(error_of([&] { RunSetup::open(spec, at::kCPU, Ranks::planned(0, 2)); }),
              HasSubstr("cuda_graphs"));
}

// ---- Jobs of the ranks ----

/// A session of this rank with edits of the test.
class Steps {
 public:
  Steps(const Ranks& ranks, const Json& arguments, const std::function<void(Recipe&)>& edit)
      : session_(RunSetup::open(run_spec_from_json(arguments.at("spec"), "test"), at::kCPU, ranks,
                                [&](RunRecipe& recipe) {
                                  recipe.edit_as("test");
                                  edit(recipe);
                                })) {
    session_->connect();
    session_->declare();
    session_->make_ready();
  }
  Session& session() { return *session_; }
  Json train() {
    return to_json(optrush::train(*session_, [](const Json&) {}));
  }
  /// The number of gradient all-reduces since the run began.
  int64_t sent() const {
    const auto found = session_->groups().traffic().find({"all_reduce", "dp"});
    return found == session_->groups().traffic().end() ? 0 : found->second.calls;
  }

 private:
  std::unique_ptr<RunSetup> session_;
};

bool is_block(const Unit& unit, int64_t layer) { return unit.role == UnitRole::block && unit.layer == layer; }

/// For each micro-batch, the number of buckets sent when its backward reaches the first block.
Json order_job(const Ranks& ranks, const Json& arguments) {
  Json seen = Json::array();
  Steps* steps = nullptr;
  int64_t before = 0;
  Steps mine(ranks, arguments, [&](Recipe& recipe) {
    recipe.on(Event::step_begin, Phase::measure, [&](Run&) { before = steps->sent(); });
    recipe.unit.wrap(Phase::measure,
                     [&](UnitFunction inner, const Unit& unit) -> UnitFunction {
                       if (!is_block(unit, 0)) return inner;
                       return [&, inner](const Tensor& x, const Batch& batch) {
                         const Tensor out = inner(x, batch);
                         out.register_hook([&](const Tensor&) { seen.push_back(steps->sent() - before); });
                         return out;
                       };
                     },
                     {.trace = Trace::aten});
  });
  steps = &mine;
  mine.train();
  return seen;
}

TEST(Ddp, SendsDuringTheBackwardOfTheLastMicroBatchOnly) {
  RunSpec spec = with_ddp(ddp_spec(2));
  spec.train.accumulation = 2;
  spec.train.warmup = 1;
  spec.train.steps = 3;
  for (const Json& rank : pool().run("order", 2, {{"spec", to_json(spec)}})) {
    ASSERT_EQ(rank.size(), 8U) << rank.dump();
    EXPECT_EQ(rank[0], 0);
    EXPECT_LE(rank[1], 1);  // the first step counts how often each gradient is accumulated
    for (size_t step = 1; step < 4; ++step) {
      EXPECT_EQ(rank[2 * step], 0) << "first micro-batch of step " << step;
      EXPECT_GT(rank[2 * step + 1], 1) << "last micro-batch of step " << step;
    }
  }
}

/// A parameter that every second sequence uses, and one that is unused.
Json sometimes_used_job(const Ranks& ranks, const Json& arguments) {
  std::map<std::string, int64_t> told;
  Param *gain = nullptr, *idle = nullptr;
  Steps steps(ranks, arguments, [&](Recipe& recipe) {
    recipe.on(Event::meta_initialized, Phase::adapter, [&](Run& run) {
      const auto ones = [](Tensor& value, at::Generator&) { value.fill_(1); };
      gain = &run.params().add({.name = "gain", .shape = {1}, .init = ones, .dtype = at::kDouble});
      idle = &run.params().add({.name = "idle", .shape = {3}, .init = ones, .dtype = at::kDouble});
      Module& module = *run.modules("linear").front();
      module.params.push_back(gain);
      module.params.push_back(idle);
    });
    recipe.unit.wrap(Phase::measure,
                     [&](UnitFunction inner, const Unit& unit) -> UnitFunction {
                       if (!is_block(unit, 0)) return inner;
                       return [&, inner](const Tensor& x, const Batch& batch) {
                         const Tensor out = inner(x, batch);
                         return batch.first_sample % 2 == 0 ? out * gain->value() : out;
                       };
                     },
                     {.trace = Trace::aten});
    if (arguments.value("listen", false))
      recipe.on(Event::ready, Phase::measure, [&](Run& run) {
        run.data_parallel().on_ready([&](Shard& shard) {
          ++told[shard.segments.front().param->name + (shard.grad.defined() ? "" : "!")];
        });
      });
  });
  Json result = steps.train();
  result["gain"] = gain->value().item<double>();
  result["idle"] = idle->value().sum().item<double>();
  result["told"] = told;
  return result;
}

TEST(Ddp, HandlesParametersThatSomeOrNoRanksUse) {
  RunSpec spec = with_ddp(ddp_spec(3));  // a rank uses the gain in every second step
  spec.train.weight_decay = 0.1;
  const auto several = pool().run("sometimes_used", 3, {{"spec", to_json(spec)}});
  const Json one = pool().run("sometimes_used", 1, {{"spec", to_json(reference(spec))}}).front();
  ASSERT_FALSE(one.contains("error")) << one.dump();
  EXPECT_NE(one.at("gain"), 1);
  EXPECT_EQ(one.at("idle"), 3);  // neither the optimizer nor weight decay changes it
  for (const Json& rank : several) {
    ASSERT_FALSE(rank.contains("error")) << rank.dump();
    EXPECT_NEAR(rank.at("gain").get<double>(), one.at("gain").get<double>(), 1e-9);
    EXPECT_EQ(rank.at("idle"), 3);
    EXPECT_LT(difference(losses(rank), losses(one)), 1e-9);
  }
}

TEST(Ddp, ListenersGetEachGradientOncePerStep) {
  RunSpec spec = with_ddp(ddp_spec(2));
  for (const Json& rank : pool().run("sometimes_used", 2, {{"spec", to_json(spec)}, {"listen", true}})) {
    ASSERT_FALSE(rank.contains("error")) << rank.dump();
    EXPECT_GT(rank.at("told").size(), 10U);
    for (const auto& [name, times] : rank.at("told").items()) EXPECT_EQ(times, 10) << name;
    EXPECT_FALSE(rank.at("told").contains("idle"));
  }
}
const bool kDdpJobs = add_jobs({{"order", order_job}, {"sometimes_used", sometimes_used_job}});
}  // namespace
}  // namespace optrush::testing
