#include "analysis/gate/gate.h"

#include <gmock/gmock.h>

#include "optrush/error.h"
#include "report_fixture.h"

namespace optrush {
namespace {
using test::rung;
using test::setting;
using ::testing::HasSubstr;

/// The variants of a ladder, with plans and checks.
struct PlannedLadder {
  test::SyntheticReport report{"gate", 3};
  std::vector<Variant> variants;
  Plans plans;

  explicit PlannedLadder(std::vector<Rung> rungs, const RunSpec* base = nullptr) {
    if (base) report.experiment.base = *base;
    report.ladder(std::move(rungs));
    variants = expand(report.experiment);
    plans = report.plans(variants);
  }
  GateCheck check(int64_t variant) const { return plan_check(variants, plans, variant); }
};

Rung bf16() { return rung("bf16", "mixed_precision", {{"dtype", "bf16"}}); }

std::vector<std::string> plugin_names(const RunSpec& spec) {
  std::vector<std::string> names;
  for (const auto& use : spec.plugins) names.push_back(use.name);
  return names;
}

TEST(GatePlan, BaseHasNoReference) {
  const GateCheck check = PlannedLadder({bf16()}).check(0);
  EXPECT_FALSE(check.compares());
  EXPECT_FALSE(check.must_fall);
}

TEST(GatePlan, ExactAndRoundingCompareWithThePreviousRung) {
  const PlannedLadder ladder(
      {rung("fused", "fused_adamw"), rung("checkpointing", "activation_checkpointing")});
  EXPECT_EQ(ladder.check(1).reference_variant, 0);
  EXPECT_EQ(ladder.check(1).effect, Effect::rounding);
  EXPECT_EQ(ladder.check(1).allowed.loss, 1e-4);
  EXPECT_EQ(ladder.check(2).reference_variant, 1);
  EXPECT_EQ(ladder.check(2).effect, Effect::exact);
  EXPECT_EQ(ladder.check(2).allowed.loss, 0);
  EXPECT_EQ(ladder.check(2).allowed_if_irreproducible.loss, 1e-4);
}

TEST(GatePlan, PrecisionComparesWithTheLastRungInFullPrecision) {
  const PlannedLadder ladder({rung("fused", "fused_adamw"), bf16(), rung("flash", "flash_attention"),
                              Rung{.name = "fp16",
                                   .plugins = {{"mixed_precision", {{"dtype", "fp16"}}}},
                                   .replace = {"mixed_precision"},
                                   .where = "x.lua:1"}});
  EXPECT_EQ(ladder.check(2).reference_variant, 1);
  EXPECT_EQ(ladder.check(2).allowed.loss, 2e-2);
  // In fewer bits, another order of summation makes larger differences.
  EXPECT_EQ(ladder.check(3).reference_variant, 2);
  EXPECT_EQ(ladder.check(3).effect, Effect::rounding);
  EXPECT_EQ(ladder.check(3).allowed.loss, 5e-3);
  EXPECT_EQ(ladder.check(4).reference_variant, 1);
  EXPECT_THAT(ladder.check(4).explanation, HasSubstr("'fused', the last rung in fp32"));
}

TEST(GatePlan, TakingPrecisionOffComparesTightlyWithFullPrecision) {
  const PlannedLadder ladder(
      {bf16(), rung("fused", "fused_adamw"),
       Rung{.name = "back in fp32", .without = {"mixed_precision"}, .where = "x.lua:1"}});
  EXPECT_EQ(ladder.check(3).reference_variant, 0);
  EXPECT_EQ(ladder.check(3).effect, Effect::rounding);
  EXPECT_EQ(ladder.check(3).allowed.loss, 1e-4);
}

TEST(GatePlan, ABaseInFewerBitsIsStillAReference) {
  RunSpec base = PlannedLadder({}).report.experiment.base;
  base.plugins = {{"mixed_precision", {{"dtype", "bf16"}}}};
  const PlannedLadder ladder({rung("fused", "fused_adamw")}, &base);
  EXPECT_EQ(ladder.check(1).reference_variant, 0);
  EXPECT_EQ(ladder.check(1).allowed.loss, 5e-3);
}

TEST(GatePlan, DoublePrecisionIsJudgedInDoublePrecision) {
  RunSpec base = PlannedLadder({}).report.experiment.base;
  base.train.dtype = "fp64";
  EXPECT_EQ(PlannedLadder({rung("fused", "fused_adamw")}, &base).check(1).allowed.loss, 1e-9);
}

TEST(GatePlan, ALargerMicroBatchIsComparedWithAccumulation) {
  const GateCheck check =
      PlannedLadder({bf16(), setting("micro-batch 8", {{"train", {{"micro_batch", 8}}}})}).check(2);
  ASSERT_TRUE(check.reference);
  EXPECT_FALSE(check.subject);
  EXPECT_EQ(check.reference->purpose, Purpose::reference);
  EXPECT_EQ(check.reference->variant, 2);
  EXPECT_EQ(check.reference->train.micro_batch, 4);
  EXPECT_EQ(check.reference->train.accumulation, 2);
  EXPECT_EQ(check.reference->train.steps + check.reference->train.warmup, 6);
  EXPECT_EQ(plugin_names(*check.reference), std::vector<std::string>{"mixed_precision"});
  EXPECT_EQ(check.allowed.loss, 5e-3);
}

TEST(GatePlan, AccumulationIsProbedAtTheBatchBeforeIt) {
  const PlannedLadder ladder(
      {rung("accumulate", "gradient_accumulation", {{"steps", 4}}), rung("fused", "fused_adamw")});
  const GateCheck check = ladder.check(1);
  ASSERT_TRUE(check.subject);
  EXPECT_EQ(check.subject->purpose, Purpose::probe);
  EXPECT_EQ(check.subject->train.micro_batch, 1);
  EXPECT_EQ(check.subject->train.global_batch, 0);
  EXPECT_EQ(check.subject->train.steps + check.subject->train.warmup, 6);
  EXPECT_EQ(check.reference_variant, 0);
  EXPECT_EQ(check.allowed.loss, 1e-4);
  // The rungs after it have the same problem.
  EXPECT_EQ(ladder.check(2).reference_variant, 1);
  EXPECT_FALSE(ladder.check(2).subject);
}

TEST(GatePlan, ABatchThatCannotBeSplitOnlyHasToTrain) {
  const GateCheck check =
      PlannedLadder({rung("accumulate", "gradient_accumulation", {{"steps", 3}})}).check(1);
  EXPECT_FALSE(check.compares());
  EXPECT_TRUE(check.must_fall);
  EXPECT_THAT(check.explanation, HasSubstr("cannot be split"));
}

TEST(GatePlan, ANewBatchWithAPluginIsProbedWithThePlugin) {
  Rung both = rung("flash at 8", "flash_attention");
  both.settings = {{"train", {{"micro_batch", 8}, {"seq_len", 1024}}}};
  const GateCheck check = PlannedLadder({both}).check(1);
  ASSERT_TRUE(check.subject);
  EXPECT_EQ(check.subject->train.micro_batch, 4);
  EXPECT_EQ(check.subject->train.seq_len, 512);
  EXPECT_EQ(plugin_names(*check.subject), std::vector<std::string>{"flash_attention"});
  EXPECT_EQ(check.effect, Effect::rounding);
}

TEST(GatePlan, AnotherSequenceLengthOnlyHasToTrain) {
  const GateCheck check = PlannedLadder({setting("long", {{"train", {{"seq_len", 1024}}}})}).check(1);
  EXPECT_FALSE(check.compares());
  EXPECT_TRUE(check.must_fall);
}

TEST(GatePlan, AnEqualGlobalBatchIsTheSameTask) {
  const GateCheck check =
      PlannedLadder({setting("split", {{"train", {{"micro_batch", 2}, {"accumulation", 2}}}})}).check(1);
  EXPECT_EQ(check.reference_variant, 0);
  EXPECT_EQ(check.effect, Effect::rounding);
  EXPECT_FALSE(check.subject);
}

TEST(GatePlan, AnotherFunctionIsComparedWithItsPlainForm) {
  RunSpec base = PlannedLadder({}).report.experiment.base;
  base.plugins = {{"fused_adamw", Json::object()}};
  const PlannedLadder ladder({bf16(), rung("accumulate", "gradient_accumulation", {{"steps", 4}}),
                              rung("lora", "lora", {{"rank", 8}}), rung("flash", "flash_attention")},
                             &base);
  const GateCheck check = ladder.check(3);
  ASSERT_TRUE(check.reference);
  EXPECT_EQ(plugin_names(*check.reference), (std::vector<std::string>{"fused_adamw", "lora"}));
  EXPECT_EQ(check.reference->plugins.back().options, Json({{"rank", 8}}));
  EXPECT_EQ(check.reference->train.accumulation, 4) << "the same batch without the plugin";
  EXPECT_EQ(check.effect, Effect::precision);
  EXPECT_TRUE(check.must_fall);
  EXPECT_EQ(ladder.check(4).reference_variant, 3) << "it computes the same function";
}

TEST(GatePlan, SingleFunctionOnlyHasToTrain) {
  const GateCheck check = PlannedLadder({rung("lora", "lora", {{"rank", 8}})}).check(1);
  EXPECT_FALSE(check.compares());
  EXPECT_TRUE(check.must_fall);
}

TEST(GatePlan, ALossPerMicroBatchIsComparedAtTheSameMicroBatches) {
  const PlannedLadder ladder({rung("router", "router_losses"),
                              rung("accumulate", "gradient_accumulation", {{"steps", 2}}),
                              rung("fused", "fused_adamw")});
  const GateCheck check = ladder.check(2);
  EXPECT_FALSE(check.subject) << "a probe at the batch before it has other micro-batches";
  ASSERT_TRUE(check.reference);
  EXPECT_EQ(plugin_names(*check.reference), std::vector<std::string>{"router_losses"});
  EXPECT_EQ(check.reference->train.micro_batch, 4);
  EXPECT_EQ(check.reference->train.accumulation, 2);
  EXPECT_EQ(check.allowed.loss, 1e-4);
  EXPECT_TRUE(check.must_fall);
  EXPECT_EQ(ladder.check(3).reference_variant, 2) << "it has the same micro-batches";
}

TEST(GatePlan, RanksThatShareABatchComputeALossPerMicroBatchAsAccumulationDoes) {
  Rung ranks = rung("ranks", "spread");
  ranks.settings = {{"train", {{"world_size", 2}, {"micro_batch", 2}}}};
  const GateCheck check = PlannedLadder({rung("router", "router_losses"), ranks}).check(2);
  ASSERT_TRUE(check.reference);
  EXPECT_EQ(plugin_names(*check.reference), std::vector<std::string>{"router_losses"});
  EXPECT_EQ(check.reference->train.world_size, 1);
  EXPECT_EQ(check.reference->train.micro_batch, 2);
  EXPECT_EQ(check.reference->train.accumulation, 2);
}

TEST(GatePlan, ALossPerMicroBatchOfOtherMicroBatchesOnlyHasToTrain) {
  const GateCheck check = PlannedLadder({rung("router", "router_losses"),
                                         setting("micro-batch 8", {{"train", {{"micro_batch", 8}}}})})
                              .check(2);
  EXPECT_FALSE(check.compares());
  EXPECT_TRUE(check.must_fall);
}

TEST(GatePlan, ALearningRateThatChangesIsAnotherTask) {
  for (const Json& train :
       {Json{{"lr", 0.1}}, Json{{"lr_warmup", 2}}, Json{{"lr_decay", "linear"}, {"lr_steps", 9}}}) {
    const PlannedLadder ladder({setting("rate", {{"train", train}}), rung("fused", "fused_adamw")});
    EXPECT_EQ(ladder.check(1).reference_variant, -1) << train;
    EXPECT_TRUE(ladder.check(1).must_fall) << train;
    EXPECT_EQ(ladder.check(2).reference_variant, 1) << train;
  }
}

TEST(GatePlan, AnotherSeedIsAnotherTask) {
  const PlannedLadder ladder({bf16(), setting("seed 2", {{"train", {{"seed", 2}}}})});
  ASSERT_TRUE(ladder.check(2).reference);
  EXPECT_EQ(ladder.check(2).reference->train.seed, 2U);
  EXPECT_TRUE(ladder.check(2).reference->plugins.empty());
}

TEST(GatePlan, CombinationsOfAGridAreComparedWithTheSameTask) {
  PlannedLadder grid({});
  grid.report.experiment.parts = {
      {.arrangement = Arrangement::grid,
       .axes = {{setting("s256", {{"train", {{"seq_len", 256}}}}),
                 setting("s1024", {{"train", {{"seq_len", 1024}}}})},
                {setting("fp32", Json::object()), bf16(), rung("flash", "flash_attention")}}}};
  grid.variants = expand(grid.report.experiment);
  grid.plans = grid.report.plans(grid.variants);
  // s256: fp32, bf16, flash; s1024: the same.
  EXPECT_EQ(grid.check(2).reference_variant, 1);
  EXPECT_EQ(grid.check(2).allowed.loss, 2e-2);
  EXPECT_EQ(grid.check(5).reference_variant, 4);
  EXPECT_EQ(grid.check(6).reference_variant, 4) << "the first variant in full precision";
  EXPECT_EQ(grid.check(6).allowed.loss, 1e-4);
  EXPECT_FALSE(grid.check(6).subject) << "no extra run is needed";
  EXPECT_THAT(grid.check(6).explanation, HasSubstr("'s1024 + fp32', of the same problem"));
  EXPECT_LT(grid.check(4).reference_variant, 1)
      << "the first variant of a length is probed with the base's length";
  grid.plans[4].reset();
  EXPECT_EQ(grid.check(6).reference_variant, 5);
}

TEST(GatePlan, RungWithoutAPlanIsNeverAReference) {
  PlannedLadder ladder({rung("broken", "broken_plugin"), rung("fused", "fused_adamw")});
  ladder.plans[1].reset();
  EXPECT_EQ(ladder.check(2).reference_variant, 0);
  const auto checks = test::plan_gate(ladder.variants, ladder.plans);
  ASSERT_EQ(checks.size(), 2U);
  EXPECT_EQ(checks[0].variant, 0);
  EXPECT_EQ(checks[1].variant, 2);
  ladder.plans[0].reset();
  EXPECT_FALSE(ladder.check(2).compares());
  EXPECT_TRUE(ladder.check(2).must_fall);
}

TEST(GatePlan, AnAblationComparesWithTheFullStack) {
  const auto report = test::ablation();
  const auto variants = expand(report.experiment);
  const auto plans = report.plans(variants);
  const auto reference = [&](const std::string& name) {
    for (const auto& variant : variants)
      if (variant.name == name)
        return variants.at(static_cast<size_t>(plan_check(variants, plans, variant.index).reference_variant))
            .name;
    return std::string("no such variant");
  };
  EXPECT_EQ(reference("full"), "base");
  EXPECT_EQ(reference("without fused AdamW"), "full");
  EXPECT_EQ(reference("without bf16"), "base") << "in fp32 the base is the narrower reference";
  EXPECT_EQ(reference("bf16 alone"), "base");
}

std::string error_of_plan(const Json& json) {
  try {
    plan_from_json(json, "plans.json");
  } catch (const Error& e) {
    EXPECT_EQ(e.where(), "plans.json");
    return e.message();
  }
  return "";
}

TEST(Plan, RoundTripsAndNamesInvalidFields) {
  const PlannedLadder ladder({bf16()});
  const Json good = to_json(*ladder.plans[1]);
  EXPECT_EQ(to_json(plan_from_json(good, "plans.json")), good);
  const auto with = [&](const char* pointer, const Json& value) {
    Json json = good;
    json[Json::json_pointer(pointer)] = value;
    return error_of_plan(json);
  };
  for (const char* field : {"problem", "model", "plugins"}) {
    Json json = good;
    json.erase(field);
    EXPECT_THAT(error_of_plan(json), HasSubstr(field));
  }
  EXPECT_THAT(with("/plugins/0/effect", "wider"), HasSubstr("wider"));
  EXPECT_THAT(with("/plugins/0/options", 3), HasSubstr("options"));
  EXPECT_THAT(with("/problem/global_batch", 7), HasSubstr("global_batch"));
  EXPECT_THAT(with("/problem/micro_batch", "4"), HasSubstr("micro_batch"));
  EXPECT_THAT(with("/memory/peak_bytes", "much"), HasSubstr("peak_bytes"));
  EXPECT_THAT(with("/mesh", {{{"dim", "dp"}, {"size", 0}}}), HasSubstr("mesh"));
}

TEST(Plan, RanksOfAnEarlierBuildAreDerivedFromTheBatch) {
  Json json = to_json(*PlannedLadder({bf16()}).plans[1]);
  json["problem"].erase("world_size");
  const auto one =
      json["problem"]["micro_batch"].get<int64_t>() * json["problem"]["accumulation"].get<int64_t>();
  json["problem"]["global_batch"] = 3 * one;
  EXPECT_EQ(plan_from_json(json, "plans.json").devices(), 3);
}

TEST(GatePlan, RepeatIsAnotherRunOfTheReference) {
  const PlannedLadder ladder(
      {rung("fused", "fused_adamw"), rung("checkpointing", "activation_checkpointing")});
  EXPECT_FALSE(ladder.check(1).repeat) << "the check does not require equal bits";
  const GateCheck exact = ladder.check(2);
  ASSERT_TRUE(exact.repeat);
  EXPECT_EQ(exact.repeat->purpose, Purpose::repeat);
  EXPECT_EQ(exact.repeat->variant, 1);
  EXPECT_EQ(exact.repeat->train.steps, ladder.variants[1].spec.train.steps)
      << "the repeat has the same length";
  EXPECT_EQ(run_id(ladder.variants[1], *exact.repeat), "01-fused-repeat");
}

Rung on_ranks(int64_t world_size, int64_t micro_batch, const Json& more = Json::object()) {
  Json train = {{"world_size", world_size}, {"micro_batch", micro_batch}};
  train.update(more);
  Rung made =
      setting(std::to_string(world_size) + " ranks of " + std::to_string(micro_batch), {{"train", train}});
  if (world_size > 1) made.plugins = {{"spread", Json::object()}};
  return made;
}
Rung more_ranks(int64_t world_size, int64_t micro_batch) {
  Rung made = on_ranks(world_size, micro_batch);
  made.plugins.clear();
  return made;
}

TEST(GatePlan, MoreRanksAtAnEqualGlobalBatchAreTheSameTask) {
  const PlannedLadder ladder({on_ranks(2, 2), more_ranks(4, 1)});
  for (const int64_t variant : {1, 2}) {
    const GateCheck check = ladder.check(variant);
    EXPECT_EQ(check.reference_variant, variant - 1);
    EXPECT_FALSE(check.subject || check.reference) << "no extra run is needed";
    EXPECT_EQ(check.effect, Effect::rounding);
  }
}

TEST(GatePlan, AGlobalBatchThatGrowsWithTheRanksIsComparedWithFewerRanks) {
  const PlannedLadder ladder({on_ranks(2, 4), more_ranks(4, 4), more_ranks(8, 2)});
  const GateCheck two = ladder.check(1), four = ladder.check(2);
  ASSERT_TRUE(two.reference && four.reference);
  EXPECT_FALSE(two.subject || four.subject);
  EXPECT_EQ(two.reference->train.world_size, 1);
  EXPECT_EQ(two.reference->train.accumulation, 2);
  EXPECT_TRUE(two.reference->plugins.empty());
  EXPECT_THAT(two.explanation, HasSubstr("'base' on 1 rank accumulating over 2 micro-batches"));
  EXPECT_EQ(four.reference->train.world_size, 2);
  EXPECT_EQ(four.reference->train.accumulation, 2);
  EXPECT_EQ(plugin_names(*four.reference), std::vector<std::string>{"spread"});
  EXPECT_EQ(four.effect, Effect::rounding);
  EXPECT_EQ(ladder.check(3).reference_variant, 2) << "strong scaling";
}

TEST(GatePlan, RanksOverAnAccumulatingPluginAreProbed) {
  const PlannedLadder ladder({rung("accumulate", "gradient_accumulation", {{"steps", 4}}), on_ranks(2, 4)});
  const GateCheck check = ladder.check(2);
  ASSERT_TRUE(check.subject) << "a plugin sets the accumulation of the rung below";
  EXPECT_EQ(check.subject->train.world_size, 2);
  EXPECT_EQ(check.subject->train.micro_batch, 2);
  EXPECT_EQ(check.reference_variant, 1);
}

TEST(GatePlan, APlainFormHasTheRanksOfTheBase) {
  const PlannedLadder ladder({on_ranks(4, 4), rung("lora", "lora", {{"rank", 8}})});
  const GateCheck check = ladder.check(2);
  ASSERT_TRUE(check.reference);
  EXPECT_EQ(plugin_names(*check.reference), std::vector<std::string>{"lora"});
  EXPECT_EQ(check.reference->train.world_size, 1) << "the reference has no parallel plugin";
  EXPECT_EQ(check.reference->train.micro_batch, 4);
  EXPECT_EQ(check.reference->train.accumulation, 4);
  EXPECT_THAT(check.explanation, HasSubstr("on 1 rank"));
}

// Where the stack cuts matrices over some ranks, the plain form has more data-parallel ranks.
TEST(GatePlan, PlainFormHasTheGlobalBatchOfAStackWithFewerDataRanks) {
  RunSpec base = PlannedLadder({}).report.experiment.base;
  base.train.world_size = 4;
  base.train.micro_batch = 2;
  base.plugins = {{"spread", Json::object()}};
  PlannedLadder ladder({rung("cut", "tensor_parallel"), rung("lora", "lora", {{"rank", 8}})}, &base);
  for (const size_t cut : {1, 2}) ladder.plans[cut]->problem.global_batch = 4;  // 2 data-parallel ranks
  const GateCheck check = ladder.check(2);
  ASSERT_TRUE(check.reference) << check.explanation;
  EXPECT_EQ(plugin_names(*check.reference), (std::vector<std::string>{"spread", "lora"}));
  EXPECT_EQ(check.reference->train.world_size, 4);
  EXPECT_EQ(check.reference->train.micro_batch * check.reference->train.accumulation * 4, 4);
}
}  // namespace
}  // namespace optrush
