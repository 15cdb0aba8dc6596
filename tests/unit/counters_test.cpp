// Counters of plugins: when the run reads them, and which it refuses.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "support/error_of.h"
#include "support/training.h"
#include "train/measurement.h"

namespace optrush::testing {
namespace {
Json counters_of(const RunSpec& spec, const std::function<void(Recipe&)>& edit = {}) {
  return Trained(spec, edit).train().at("counters");
}

Json counter_of(const Json& counters, const std::string& plugin, const std::string& name) {
  for (const Json& counter : counters.at(plugin))
    if (counter.at("name") == name) return counter;
  throw std::runtime_error("no counter '" + name + "'");
}

TEST(Counters, CountersOfAStepCoverOnlyTimedSteps) {
  RunSpec spec = nano_spec();
  spec.train.warmup = 3;
  spec.train.steps = 4;
  double steps = 100, forwards = 0;
  const auto edit = [&](Recipe& recipe) {
    recipe.on(Event::step_end, Phase::measure, [&](optrush::Run&) { ++steps; });
    recipe.unit.wrap(Phase::measure, [&](UnitFunction inner, const Unit& unit) -> UnitFunction {
      if (unit.role != UnitRole::head) return inner;
      return [&, inner](const Tensor& x, const Batch& batch) {
        ++forwards;
        return inner(x, batch);
      };
    });
    recipe.counter({.name = "steps", .per = Per::step}, [&] { return steps; });
    recipe.counter({.name = "all", .unit = "steps", .over_ranks = OverRanks::max}, [&] { return steps; });
    recipe.counter({.name = "forwards", .per = Per::step}, [&] { return forwards; });
  };
  const Json counters = counters_of(spec, edit);
  EXPECT_EQ(counter_of(counters, "test", "steps"),
            Json({{"name", "steps"}, {"unit", ""}, {"per", "step"}, {"over_ranks", "sum"}, {"value", 1.0}}));
  EXPECT_EQ(counter_of(counters, "test", "all").at("value"), 107);
  EXPECT_EQ(counter_of(counters, "test", "all").at("unit"), "steps");
  // Validation between the steps does not count.
  spec.validate.every = 1;
  EXPECT_EQ(counter_of(counters_of(spec, edit), "test", "forwards").at("value"), 1);
  EXPECT_GT(forwards, 2 * 7);
}

TEST(Counters, RunWithoutCountersHasNone) { EXPECT_FALSE(Trained(nano_spec()).train().contains("counters")); }

TEST(Counters, NonFiniteOrThrowingCounterNamesThePlugin) {
  const auto error = [](const std::function<double()>& read) {
    return error_of(
        [&] { counters_of(nano_spec(), [&](Recipe& recipe) { recipe.counter({.name = "bad"}, read); }); });
  };
  for (const double value :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    EXPECT_NE(error([=] { return value; }).find("plugin 'test' in its counter 'bad'"), std::string::npos);
  EXPECT_NE(error([]() -> double {
              throw std::runtime_error("no number");
            }).find("plugin 'test' in its counter 'bad'"),
            std::string::npos);
}

TEST(Counters, NamesAreBounded) {
  const auto error = [](const Counter& counter, int times = 1) {
    return error_of([&] {
      Trained(nano_spec(), [&](Recipe& recipe) {
        for (int i = 0; i < times; ++i) {
          Counter each = counter;
          if (times > 2) each.name += std::to_string(i);
          recipe.counter(each, [] { return 0.0; });
        }
      });
    });
  };
  EXPECT_EQ(error({.name = "good", .unit = "bytes"}), "");
  EXPECT_EQ(error({.name = "good"}, 16), "");
  EXPECT_NE(error({.name = "good"}, 17).find("maximum of 16 counters"), std::string::npos);
  EXPECT_NE(error({.name = "good"}, 2).find("is declared twice"), std::string::npos);
  EXPECT_NE(error({.name = ""}).find("invalid name"), std::string::npos);
  EXPECT_NE(error({.name = "two\nlines"}).find("invalid name"), std::string::npos);
  EXPECT_NE(error({.name = std::string(41, 'x')}).find("invalid name"), std::string::npos);
  EXPECT_NE(error({.name = "good", .unit = std::string(17, 'x')}).find("has the unit"), std::string::npos);
}

TEST(Counters, RanksAreCombinedAsThePluginDeclares) {
  const auto rank = [](double value) {
    std::vector<CounterResult> counters;
    for (const char* how : {"sum", "mean", "max"})
      counters.push_back({.plugin = "mine", .name = how, .over_ranks = how, .value = value});
    return counters;
  };
  const auto all = over_ranks({rank(1), rank(2), rank(6)});
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].value, 9);
  EXPECT_EQ(all[1].value, 3);
  EXPECT_EQ(all[2].value, 6);
  EXPECT_NE(error_of([&] {
              over_ranks({rank(1), {}});
            }).find("plugin 'mine' has different counters on different ranks"),
            std::string::npos);
}

TEST(Counters, OffloadCountsMovedBytes) {
  RunSpec spec = nano_spec({{"activation_checkpointing", {{"policy", "offload"}}}});
  spec.train.steps = 3;
  const double once =
      counter_of(counters_of(spec), "activation_checkpointing", "moved to the host").at("value");
  EXPECT_GT(once, 0);
  spec.train.accumulation = 2;
  EXPECT_EQ(counter_of(counters_of(spec), "activation_checkpointing", "moved to the host").at("value"),
            2 * once);
}

TEST(Counters, LossScaleAndSkippedUpdates) {
  // This scale overflows until it has been halved several times. The host sees the same skipped steps.
  RunSpec spec = nano_spec({{"mixed_precision", {{"dtype", "fp16"}, {"initial_scale", 67108864}}}});
  spec.train.warmup = 20;
  const Json result = Trained(spec).train();
  int64_t skipped = 0;
  for (const Json& step : result.at("steps")) skipped += step.at("grad_norm").is_null() ? 1 : 0;
  const Json& counters = result.at("counters");
  EXPECT_EQ(counter_of(counters, "mixed_precision", "skipped updates").at("value"), skipped);
  EXPECT_EQ(counter_of(counters, "mixed_precision", "loss scale at the end").at("value"),
            67108864 / static_cast<double>(int64_t{1} << skipped));
  EXPECT_GT(skipped, 0);
}

TEST(Counters, GathersOfShards) {
  // Embedding (tied to the head), two blocks and the head: gathered for the forward, and for the backward.
  const Json counters = counters_of(nano_spec({{"fsdp", Json::object()}}));
  const double gathers = counter_of(counters, "fsdp", "gathers").at("value");
  EXPECT_GE(gathers, 2 * 3);
  EXPECT_EQ(gathers, std::floor(gathers));
  EXPECT_GT(counter_of(counters, "fsdp", "gathered").at("value"), 0);
}
}  // namespace
}  // namespace optrush::testing
