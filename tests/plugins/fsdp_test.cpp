// Sharding in one process: the places of elements, memory under autograd, the order of gathers, and a plan's
// predictions of memory and traffic. tests/distributed has tests with several ranks.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "measure/step_clock.h"
#include "optrush/advanced/data_parallel.h"
#include "optrush/forecast.h"
#include "sharded.h"
#include "simulated/device.h"
#include "spec/spec_json.h"
#include "support/error_of.h"
#include "support/training.h"
#include "train/train_step.h"
#include "worker/predict.h"

namespace optrush::testing {
namespace {
using fsdp::FlatGroup;
using fsdp::Policy;
using fsdp::Sharded;
using ::testing::HasSubstr;

PluginUse fsdp_with(Json options = Json::object()) { return {"fsdp", std::move(options)}; }

RunSpec ranks_spec(int64_t ranks, Json options, const Json& model = Json::object()) {
  RunSpec spec = nano_spec({fsdp_with(std::move(options))});
  Json fields = spec.model;
  fields.update(model);
  spec.model = validate_model("llama", fields, "test");
  spec.train.world_size = ranks;
  return spec;
}

/// Rank `rank` of a planned mesh.
std::unique_ptr<RunSetup> declared(const RunSpec& spec, int64_t rank,
                                   const std::function<void(Recipe&)>& edit = {}) {
  auto session =
      RunSetup::open(spec, at::kCPU, Ranks::planned(rank, spec.train.world_size), [&](RunRecipe& recipe) {
        recipe.edit_as("test");
        if (edit) edit(recipe);
      });
  session->declare();
  return session;
}

std::vector<Param*> all_params(Session& session) { return static_cast<Run&>(session).params().all(); }

int64_t draw(std::mt19937_64& random, int64_t least, int64_t most) {
  return std::uniform_int_distribution<int64_t>(least, most)(random);
}

TEST(FsdpLayout, EveryElementIsKeptOnceAndBlocksAreWhole) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    std::mt19937_64 random(seed);
    const int64_t ranks = draw(random, 1, 9), heads = draw(random, 1, 3), stage = draw(random, 1, 3);
    const RunSpec spec = ranks_spec(ranks, {{"stage", stage}},
                                    {{"dim", heads * 2 * draw(random, 1, 9)},
                                     {"n_heads", heads},
                                     {"n_kv_heads", 1},
                                     {"ffn_dim", draw(random, 1, 40)},
                                     {"vocab_size", draw(random, 2, 70)},
                                     {"tie_embeddings", draw(random, 0, 1) == 1}});
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + to_json(spec).dump());
    const int64_t block = draw(random, 1, 3) == 1 ? draw(random, 1, 50) : 1;
    std::map<std::string, Tensor> seen;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const auto session = declared(spec, rank, [block](Recipe& recipe) {
        recipe.on(Event::meta_initialized, Phase::optimizer, [block](optrush::Run& run) {
          for (Param* param : run.params().all()) param->block = block;
        });
      });
      std::map<const Param*, int64_t> in_shards;
      for (const Shard& shard : session->data_parallel().shards()) {
        int64_t end = 0;
        for (const Segment& segment : shard.segments) {
          EXPECT_GE(segment.at, end) << "segments overlap";
          EXPECT_EQ(segment.at % 16, 0) << "kernels assume aligned matrices";
          EXPECT_EQ(segment.layout, segment.param->layout);
          end = segment.at + segment.layout.numel();
          in_shards[segment.param] += segment.layout.numel();
        }
      }
      for (Param* param : all_params(*session)) {
        const Layout& layout = param->layout;
        EXPECT_EQ(in_shards[param], layout.numel()) << param->name;
        EXPECT_EQ(layout.box_shape(), param->shape);
        EXPECT_NO_THROW(layout.in_blocks(block)) << param->name;
        Tensor& counts = seen[param->name];
        if (!counts.defined()) counts = at::zeros({param->numel()}, at::kLong);
        counts.slice(0, layout.range_begin(), layout.range_end()).add_(1);
      }
    }
    for (const auto& [name, counts] : seen) EXPECT_TRUE(counts.eq(1).all().item<bool>()) << name;
  }
}

TEST(FsdpLayout, FrozenParametersAreShardedAtStageThreeOnly) {
  for (const int stage : {2, 3}) {
    RunSpec spec = ranks_spec(2, {{"stage", stage}});
    spec.plugins.push_back({"lora", {{"rank", 2}}});
    const auto session = declared(spec, 0);
    int64_t frozen = 0;
    for (Param* param : all_params(*session)) {
      if (param->trainable) continue;
      ++frozen;
      EXPECT_TRUE(stage == 3 || param->layout.whole()) << param->name;
      EXPECT_EQ(param->sharded_over.empty(), stage == 2) << param->name;
    }
    EXPECT_GT(frozen, 0);
    for (const Shard& shard : session->data_parallel().shards())
      for (const Segment& segment : shard.segments) EXPECT_TRUE(segment.param->trainable);
  }
}

TEST(FsdpStorage, ViewsUseTheAllocatedMemory) {
  fsdp::FlatStorage flat(48, at::TensorOptions(at::kDouble));
  Tensor weight = flat.view(16, {4, 3}).requires_grad_(true);
  EXPECT_FALSE(flat.allocated());
  const Tensor values = at::rand({48}, at::kDouble), x = at::rand({2, 3}, at::kDouble).requires_grad_(true);
  const auto fill = [&] {
    flat.allocate();
    flat.whole().copy_(values);
  };
  fill();
  const Tensor out = at::linear(x, weight).square().sum();
  flat.free();
  EXPECT_EQ(weight.storage().nbytes(), 0U);
  fill();
  out.backward();
  const Tensor same = values.slice(0, 16, 28).view({4, 3}).clone().requires_grad_(true);
  const Tensor again = x.detach().requires_grad_(true);
  at::linear(again, same).square().sum().backward();
  EXPECT_TRUE(at::equal(weight.grad(), same.grad()));
  EXPECT_TRUE(at::equal(x.grad(), again.grad()));
  const auto version = weight._version();
  flat.renew();
  EXPECT_GT(weight._version(), version) << "cached copies of old values must be detected";
}

/// A step of a plan on tensors without values. `edit` as in Session::open.
class Predicted {
 public:
  explicit Predicted(const RunSpec& spec, const std::function<void(Recipe&)>& edit = {})
      : session_(RunSetup::open(spec, simulated::open(at::kCUDA), Ranks::planned(0, spec.train.world_size),
                                [&](RunRecipe& recipe) {
                                  recipe.edit_as("test");
                                  if (edit) edit(recipe);
                                })) {
    session_->connect();
    session_->declare();
    session_->make_ready();
  }
  void step() {
    const auto clock = StepClock::make(session_->device());
    session_->begin_step(number_++);
    const TrainSpec& train = session_->spec().train;
    std::vector<Batch> batches(static_cast<size_t>(train.accumulation));
    const auto options = at::TensorOptions(at::kLong).device(session_->device());
    for (Batch& batch : batches) {
      batch.tokens = at::empty({train.micro_batch, train.seq_len}, options);
      batch.labels = at::empty_like(batch.tokens);
      batch.positions = at::empty_like(batch.tokens);
      batch.valid_tokens = batch.tokens.numel();
    }
    TrainStep step(*session_, *clock, std::move(batches));
    default_schedule(step);
  }
  double sent(const std::string& collective) const {
    double bytes = 0;
    for (const auto& [key, traffic] : session_->groups().traffic())
      if (key.first == collective) bytes += traffic.sent;
    return bytes;
  }
  double expected(const std::string& collective) const {
    double bytes = 0;
    for (const auto& [key, theory] : session_->expected_traffic())
      if (key.first == collective) bytes += theory;
    return bytes;
  }

 private:
  std::unique_ptr<RunSetup> session_;
  int64_t number_ = 0;
};

/// The gathered groups and pending collectives when each unit computes, in order.
struct Watched {
  Sharded* sharded = nullptr;
  struct Moment {
    std::string unit;
    bool backward;
    std::set<size_t> present;  ///< owners of the groups
    size_t in_flight;
  };
  std::vector<Moment> moments;
  size_t most_gathers = 0, most_sums = 0;

  void look(const Unit& unit, bool backward) {
    Moment moment{unit.path, backward, {}, sharded->gathers().in_flight()};
    for (const FlatGroup& group : sharded->groups())
      if (group.present()) moment.present.insert(group.plan().owner);
    most_gathers = std::max(most_gathers, sharded->gathers().in_flight());
    most_sums = std::max(most_sums, sharded->reductions().in_flight());
    moments.push_back(std::move(moment));
  }
  bool anything_present() const {
    return std::ranges::any_of(sharded->groups(), [](const FlatGroup& group) { return group.present(); });
  }
  /// The engine, observed from each unit.
  std::function<void(Recipe&)> edits(const Policy& policy) {
    return [this, policy](Recipe& recipe) {
      recipe.data_parallel.replace(
          [this, policy](Run& run) {
            auto made = std::make_unique<Sharded>(run, policy, run.mesh().data());
            sharded = made.get();
            return made;
          },
          {.predictable = true});
      recipe.unit.wrap(Phase::shard, [this](UnitFunction inner, const Unit& unit) {
        return sharded->wrap(std::move(inner), unit);
      });
      recipe.unit.wrap(Phase::offload, [this](UnitFunction inner, const Unit& unit) -> UnitFunction {
        if (unit.role != UnitRole::embed && unit.role != UnitRole::block && unit.role != UnitRole::head)
          return inner;
        return [this, inner, &unit](const Tensor& x, const Batch& batch) {
          look(unit, false);
          const Tensor out = inner(x, batch);
          out.register_hook([this, &unit](const Tensor&) { look(unit, true); });
          return out * 1;  // its backward runs before the unit's
        };
      });
    };
  }
};

RunSpec four_blocks(int64_t ranks = 4) {
  RunSpec spec = ranks_spec(ranks, Json::object(), {{"n_layers", 4}, {"tie_embeddings", false}});
  spec.plugins.clear();
  return spec;
}

std::set<size_t> range(size_t from, size_t to) {
  std::set<size_t> all;
  for (size_t i = from; i <= to; ++i) all.insert(i);
  return all;
}

TEST(FsdpGathers, NextUnitsAreGatheredDuringComputationAndFreedAfterUse) {
  for (const int64_t prefetch : {0, 1, 2}) {
    Watched watched;
    Predicted run(four_blocks(), watched.edits({.stage = 3, .prefetch = prefetch, .limit = 8}));
    EXPECT_FALSE(watched.anything_present()) << "nothing is gathered before the first step";
    for (int step = 0; step < 2; ++step) {
      watched.moments.clear();
      run.step();
      EXPECT_FALSE(watched.anything_present()) << "nothing stays gathered between steps";
      ASSERT_EQ(watched.moments.size(), 12U);
      const auto ahead = static_cast<size_t>(prefetch);
      for (size_t unit = 0; unit < 6; ++unit) {
        EXPECT_FALSE(watched.moments[unit].backward);
        EXPECT_EQ(watched.moments[unit].present, range(unit, std::min<size_t>(5, unit + ahead)));
        const size_t back = 5 - unit;
        EXPECT_TRUE(watched.moments[6 + unit].backward);
        EXPECT_EQ(watched.moments[6 + unit].present, range(back - std::min(back, ahead), back));
      }
    }
  }
}

TEST(FsdpGathers, PendingGathersStayWithinTheLimit) {
  for (const int64_t limit : {1, 2, 3}) {
    Watched watched;
    Predicted run(four_blocks(), watched.edits({.stage = 3, .prefetch = 4, .limit = limit}));
    run.step();
    EXPECT_EQ(watched.most_gathers, static_cast<size_t>(limit));
    EXPECT_LE(watched.most_sums, static_cast<size_t>(limit));
    EXPECT_GT(watched.most_sums, 0U) << "a sum is under way while the next unit computes";
  }
}

TEST(FsdpGathers, ParametersStayWholeIfThePolicyKeepsThem) {
  Watched stage_two, kept;
  Predicted whole(four_blocks(), stage_two.edits({.stage = 2}));
  whole.step();
  EXPECT_EQ(stage_two.moments.back().present, range(0, 5));
  EXPECT_FALSE(stage_two.anything_present()) << "the update invalidates them";
  Predicted without_reshard(four_blocks(), kept.edits({.stage = 3, .reshard_after_forward = false}));
  without_reshard.step();
  EXPECT_EQ(kept.moments[5].present, range(0, 5)) << "in the last forward";
  EXPECT_EQ(kept.moments.back().present, range(0, 0)) << "in the last backward";
}

/// Large matrices and few tokens, so the state dominates the memory.
const Json kHeavy = {{"vocab_size", 64}, {"dim", 512},    {"n_heads", 4},           {"n_kv_heads", 4},
                     {"ffn_dim", 1536},  {"n_layers", 8}, {"tie_embeddings", false}};
constexpr double kBlock = (4.0 * 512 * 512 + 3.0 * 512 * 1536 + 2 * 512) * 4, kWidest = 512.0 * 1536 * 4;
constexpr double kPsi = 8 * kBlock + (2.0 * 64 * 512 + 512) * 4;

RunSpec heavy_spec(int64_t ranks, Json options, int64_t accumulation) {
  RunSpec spec = ranks_spec(ranks, std::move(options), kHeavy);
  spec.plugins.push_back({"fused_adamw", Json::object()});
  spec.train.micro_batch = 1;
  spec.train.seq_len = 4;
  spec.train.accumulation = accumulation;
  return spec;
}

TEST(FsdpForecast, MemoryOfARankMatchesTheory) {
  for (const double n : {4.0, 8.0})
    for (const int stage : {1, 2, 3}) {
      const auto found =
          forecast(heavy_spec(static_cast<int64_t>(n), {{"stage", stage}}, stage == 3 ? 1 : 2), at::kCUDA);
      ASSERT_TRUE(found);
      const double state = 3 * kPsi / n;  // parameters and two moments
      // A block's gradients, the pending gradients of the block before it, and two copies of a matrix's
      // gradient from autograd.
      const double reducing = 2 * kBlock + kBlock / n + 2 * kWidest;
      const double expected = stage == 1   ? state + 2 * kPsi + 2 * kWidest
                              : stage == 2 ? state + kPsi + kPsi / n + reducing
                                           : state + 2 * kBlock + (kPsi - 3 * kBlock) / n + reducing;
      EXPECT_NEAR(*found->memory.tensors, expected, 0.05 * expected)
          << "stage " << stage << " of " << n << " ranks";
    }
}

TEST(FsdpForecast, TrafficOfARankMatchesTheory) {
  struct Case {
    Json options;
    double gathers, sums;  ///< multiples of psi, for three micro-batches
  };
  for (const auto& [options, gathers, sums] :
       {Case{{{"stage", 1}}, 1, 1}, Case{{{"stage", 2}}, 1, 3}, Case{{{"stage", 3}}, 6, 3},
        Case{{{"stage", 3}, {"reshard_after_forward", false}, {"prefetch", 2}}, 3, 3}})
    for (const double n : {1.0, 3.0, 8.0}) {
      Predicted run(heavy_spec(static_cast<int64_t>(n), options, 3));
      run.step();
      const double psi = kPsi * (n - 1) / n;
      SCOPED_TRACE(options.dump() + " on " + std::to_string(n));
      EXPECT_NEAR(run.sent("all_gather"), gathers * psi, 0.01 * gathers * psi);
      EXPECT_NEAR(run.sent("reduce_scatter"), sums * psi, 0.01 * sums * psi);
      EXPECT_NEAR(run.expected("all_gather"), gathers * psi, 1e-9 * kPsi);
      EXPECT_NEAR(run.expected("reduce_scatter"), sums * psi, 1e-9 * kPsi);
    }
}

TEST(FsdpForecast, TrafficIsPredictedForSharedParametersAndUnitsWithoutBackward) {
  for (const bool tied : {false, true})
    for (const bool lora : {false, true})
      for (const bool reshard : {false, true})
        for (const int64_t prefetch : {0, 1}) {
          RunSpec spec = ranks_spec(4, {{"reshard_after_forward", reshard}, {"prefetch", prefetch}},
                                    {{"dim", 64}, {"vocab_size", 512}, {"tie_embeddings", tied}});
          spec.train.accumulation = 2;
          if (lora) spec.plugins.push_back({"lora", {{"rank", 16}}});
          Predicted run(spec);
          run.step();
          SCOPED_TRACE(to_json(spec).dump());
          for (const char* collective : {"all_gather", "reduce_scatter"})
            EXPECT_NEAR(run.sent(collective), run.expected(collective), 0.01 * run.expected(collective))
                << collective;
        }
}

/// One byte for two elements, and a scale for eight.
class HalfBytes final : public Codec {
 public:
  std::vector<Field> fields() const override { return {{"codes", at::kByte, 2}, {"scales", at::kFloat, 8}}; }
  Tensors encode(const Tensor& value) const override {
    const Tensor blocks = padded(value.flatten().to(at::kFloat)).view({-1, 8});
    const Tensor scales = blocks.abs().amax(1).clamp_min(1e-30);
    const Tensor codes = (blocks / scales.unsqueeze(1) * 7 + 8).round().to(at::kByte).view({-1, 2});
    const Tensor bytes = codes.select(1, 0) * 16 + codes.select(1, 1);
    return {bytes.narrow(0, 0, (value.numel() + 1) / 2), scales};
  }
  Tensor decode(const Tensors& stored, at::IntArrayRef shape) const override {
    const Tensor codes =
        at::stack({stored.at(0).div(16, "floor"), stored.at(0).remainder(16)}, 1).flatten().to(at::kFloat);
    const Tensor values = ((padded(codes).view({-1, 8}) - 8) / 7 * stored.at(1).unsqueeze(1)).flatten();
    return values.narrow(0, 0, c10::multiply_integers(shape)).view(shape);
  }
  int64_t block() const override { return 8; }

 private:
  static Tensor padded(const Tensor& flat) {
    return at::constant_pad_nd(flat, {0, (8 - flat.numel() % 8) % 8});
  }
};

TEST(Fsdp, EncodedParametersAreGatheredEncoded) {
  const auto encode = [](Recipe& recipe) {
    recipe.on(Event::meta_initialized, Phase::quantize, [](optrush::Run& run) {
      const auto codec = std::make_shared<HalfBytes>();
      for (Module* module : run.modules("linear"))
        for (Param* param : module->params)
          if (!param->trainable) param->codec = codec;
    });
  };
  RunSpec spec = nano_spec({{"lora", {{"rank", 2}}}});
  spec.model["tie_embeddings"] = false;
  spec.model["ffn_dim"] = 37;
  const auto plain = losses(Trained(spec, encode).train());
  spec.plugins.push_back(fsdp_with());
  EXPECT_EQ(losses(Trained(spec, encode).train()), plain);
}

TEST(Fsdp, ValueReadOutsideItsUnitIsAnErrorWithBothNames) {
  for (const Event event : {Event::materialized, Event::step_end}) {
    const auto error = error_of([&] {
      Trained(nano_spec({fsdp_with()}), [&](Recipe& recipe) {
        recipe.on(event, Phase::measure, [](optrush::Run& run) {
          run.params().at("model.layers.1.mlp.up_proj.weight").value().sum();
        });
      }).train();
    });
    EXPECT_NE(error.find("the value of 'model.layers.1.mlp.up_proj.weight' was read outside of its unit "
                         "'model.layers.1'"),
              std::string::npos)
        << error;
  }
}

TEST(Fsdp, OptionsWithoutEffectAreRefused) {
  const auto message = error_of([] {
    declared(ranks_spec(2, {{"stage", 2}, {"reshard_after_forward", false}}), 0);
  });
  EXPECT_THAT(message, HasSubstr("option 'reshard_after_forward' has no effect at stage 2"));
}

TEST(Fsdp, ShardRanksMustDivideTheRanks) {
  const auto message = error_of([] { declared(ranks_spec(6, {{"shard_ranks", 4}}), 0); });
  EXPECT_THAT(message, HasSubstr("the mesh (fsdp 4) has 4 places, but the run has 6 ranks"));
  const auto session = declared(ranks_spec(6, {{"shard_ranks", 3}}), 4);
  EXPECT_EQ(session->mesh().size("fsdp"), 3);
  EXPECT_EQ(session->mesh().size("dp"), 2);
  EXPECT_EQ(session->mesh().rank("fsdp"), 1) << "neighbours share one set of shards";
  for (const Shard& shard : session->data_parallel().shards())
    EXPECT_EQ(shard.sharded_over, std::vector<std::string>{"fsdp"});
}
}  // namespace
}  // namespace optrush::testing
