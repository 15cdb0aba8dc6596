#include "experiment/gate.h"

#include <gmock/gmock.h>

#include <cmath>

#include "optrush/error.h"
#include "report_fixture.h"

namespace optrush {
namespace {
using test::rung;
using test::setting;
using testing::HasSubstr;

/// Variants of a ladder, their plans, and the check of each.
struct Ladder {
  test::SyntheticReport report{"gate", 3};
  std::vector<Variant> variants;
  std::vector<Json> plans;

  explicit Ladder(std::vector<Rung> rungs, const RunSpec* base = nullptr) {
    if (base) report.experiment.base = *base;
    report.ladder(std::move(rungs));
    variants = expand(report.experiment);
    plans = report.plans(variants);
  }
  GateCheck check(int64_t variant) const { return plan_check(variants, plans, variant); }
};

Rung bf16() { return rung("bf16", "mixed_precision", {{"dtype", "bf16"}}); }

std::vector<std::string> names(const RunSpec& spec) {
  std::vector<std::string> names;
  for (const auto& use : spec.plugins) names.push_back(use.name);
  return names;
}

TEST(GatePlan, TheBaseIsComparedWithNothing) {
  const GateCheck check = Ladder({bf16()}).check(0);
  EXPECT_FALSE(check.compares());
  EXPECT_FALSE(check.must_fall);
}

TEST(GatePlan, ExactAndRoundingCompareWithThePreviousRung) {
  const Ladder ladder({rung("fused", "fused_adamw"), rung("checkpointing", "activation_checkpointing")});
  EXPECT_EQ(ladder.check(1).reference_variant, 0);
  EXPECT_EQ(ladder.check(1).effect, Effect::rounding);
  EXPECT_EQ(ladder.check(1).tolerance, 1e-4);
  EXPECT_EQ(ladder.check(2).reference_variant, 1);
  EXPECT_EQ(ladder.check(2).effect, Effect::exact);
  EXPECT_EQ(ladder.check(2).tolerance, 0);
  EXPECT_EQ(ladder.check(2).tolerance_if_irreproducible, 1e-4);
}

TEST(GatePlan, PrecisionComparesWithTheLastRungInFullPrecision) {
  const Ladder ladder({rung("fused", "fused_adamw"), bf16(), rung("flash", "flash_attention"),
                       Rung{.name = "fp16",
                            .plugins = {{"mixed_precision", {{"dtype", "fp16"}}}},
                            .replace = {"mixed_precision"},
                            .where = "x.lua:1"}});
  EXPECT_EQ(ladder.check(2).reference_variant, 1);
  EXPECT_EQ(ladder.check(2).tolerance, 2e-2);
  // In fewer bits even another order of the same sums shows more.
  EXPECT_EQ(ladder.check(3).reference_variant, 2);
  EXPECT_EQ(ladder.check(3).effect, Effect::rounding);
  EXPECT_EQ(ladder.check(3).tolerance, 5e-3);
  EXPECT_EQ(ladder.check(4).reference_variant, 1);
  EXPECT_THAT(ladder.check(4).explanation, HasSubstr("'fused', the last rung in fp32"));
}

TEST(GatePlan, TakingPrecisionOffComparesTightlyWithFullPrecision) {
  const Ladder ladder({bf16(), rung("fused", "fused_adamw"),
                       Rung{.name = "back in fp32", .without = {"mixed_precision"}, .where = "x.lua:1"}});
  EXPECT_EQ(ladder.check(3).reference_variant, 0);
  EXPECT_EQ(ladder.check(3).effect, Effect::rounding);
  EXPECT_EQ(ladder.check(3).tolerance, 1e-4);
}

TEST(GatePlan, ABaseInFewerBitsIsStillAReference) {
  RunSpec base = Ladder({}).report.experiment.base;
  base.plugins = {{"mixed_precision", {{"dtype", "bf16"}}}};
  const Ladder ladder({rung("fused", "fused_adamw")}, &base);
  EXPECT_EQ(ladder.check(1).reference_variant, 0);
  EXPECT_EQ(ladder.check(1).tolerance, 5e-3);
}

TEST(GatePlan, DoublePrecisionIsJudgedInDoublePrecision) {
  RunSpec base = Ladder({}).report.experiment.base;
  base.train.dtype = "fp64";
  EXPECT_EQ(Ladder({rung("fused", "fused_adamw")}, &base).check(1).tolerance, 1e-9);
}

TEST(GatePlan, ALargerMicroBatchIsComparedWithAccumulation) {
  const GateCheck check =
      Ladder({bf16(), setting("micro-batch 8", {{"train", {{"micro_batch", 8}}}})}).check(2);
  ASSERT_TRUE(check.reference);
  EXPECT_FALSE(check.subject);
  EXPECT_EQ(check.reference->purpose, "reference");
  EXPECT_EQ(check.reference->variant, 2);
  EXPECT_EQ(check.reference->train.micro_batch, 4);
  EXPECT_EQ(check.reference->train.accumulation, 2);
  EXPECT_EQ(check.reference->train.steps + check.reference->train.warmup, 6);
  EXPECT_EQ(names(*check.reference), std::vector<std::string>{"mixed_precision"});
  EXPECT_EQ(check.tolerance, 5e-3);
}

TEST(GatePlan, AccumulationIsProbedAtTheBatchBeforeIt) {
  const Ladder ladder(
      {rung("accumulate", "gradient_accumulation", {{"steps", 4}}), rung("fused", "fused_adamw")});
  const GateCheck check = ladder.check(1);
  ASSERT_TRUE(check.subject);
  EXPECT_EQ(check.subject->purpose, "probe");
  EXPECT_EQ(check.subject->train.micro_batch, 1);
  EXPECT_EQ(check.subject->train.global_batch, 0);
  EXPECT_EQ(check.subject->train.steps + check.subject->train.warmup, 6);
  EXPECT_EQ(check.reference_variant, 0);
  EXPECT_EQ(check.tolerance, 1e-4);
  // Rungs after it are of its problem.
  EXPECT_EQ(ladder.check(2).reference_variant, 1);
  EXPECT_FALSE(ladder.check(2).subject);
}

TEST(GatePlan, ABatchThatCannotBeSplitOnlyHasToTrain) {
  const GateCheck check = Ladder({rung("accumulate", "gradient_accumulation", {{"steps", 3}})}).check(1);
  EXPECT_FALSE(check.compares());
  EXPECT_TRUE(check.must_fall);
  EXPECT_THAT(check.explanation, HasSubstr("cannot be split"));
}

TEST(GatePlan, ANewBatchWithAPluginIsProbedWithThePlugin) {
  Rung both = rung("flash at 8", "flash_attention");
  both.settings = {{"train", {{"micro_batch", 8}, {"seq_len", 1024}}}};
  const GateCheck check = Ladder({both}).check(1);
  ASSERT_TRUE(check.subject);
  EXPECT_EQ(check.subject->train.micro_batch, 4);
  EXPECT_EQ(check.subject->train.seq_len, 512);
  EXPECT_EQ(names(*check.subject), std::vector<std::string>{"flash_attention"});
  EXPECT_EQ(check.effect, Effect::rounding);
}

TEST(GatePlan, OnlyAnotherSequenceLengthHasToTrain) {
  const GateCheck check = Ladder({setting("long", {{"train", {{"seq_len", 1024}}}})}).check(1);
  EXPECT_FALSE(check.compares());
  EXPECT_TRUE(check.must_fall);
}

TEST(GatePlan, AnEqualGlobalBatchIsTheSameTask) {
  const GateCheck check =
      Ladder({setting("split", {{"train", {{"micro_batch", 2}, {"accumulation", 2}}}})}).check(1);
  EXPECT_EQ(check.reference_variant, 0);
  EXPECT_EQ(check.effect, Effect::rounding);
  EXPECT_FALSE(check.subject);
}

TEST(GatePlan, AnotherFunctionIsComparedWithItsPlainForm) {
  RunSpec base = Ladder({}).report.experiment.base;
  base.plugins = {{"fused_adamw", Json::object()}};
  const Ladder ladder({bf16(), rung("accumulate", "gradient_accumulation", {{"steps", 4}}),
                       rung("lora", "lora", {{"rank", 8}}), rung("flash", "flash_attention")},
                      &base);
  const GateCheck check = ladder.check(3);
  ASSERT_TRUE(check.reference);
  EXPECT_EQ(names(*check.reference), (std::vector<std::string>{"fused_adamw", "lora"}));
  EXPECT_EQ(check.reference->plugins.back().options, Json({{"rank", 8}}));
  EXPECT_EQ(check.reference->train.accumulation, 4) << "the same batch without the plugin";
  EXPECT_EQ(check.effect, Effect::precision);
  EXPECT_TRUE(check.must_fall);
  EXPECT_EQ(ladder.check(4).reference_variant, 3) << "the same function again";
}

TEST(GatePlan, AFunctionAloneIsItsOwnPlainForm) {
  const GateCheck check = Ladder({rung("lora", "lora", {{"rank", 8}})}).check(1);
  EXPECT_FALSE(check.compares());
  EXPECT_TRUE(check.must_fall);
}

TEST(GatePlan, AnotherSeedIsAnotherTask) {
  const Ladder ladder({bf16(), setting("seed 2", {{"train", {{"seed", 2}}}})});
  ASSERT_TRUE(ladder.check(2).reference);
  EXPECT_EQ(ladder.check(2).reference->train.seed, 2U);
  EXPECT_TRUE(ladder.check(2).reference->plugins.empty());
}

TEST(GatePlan, ARungWithoutAPlanIsNobodysReference) {
  Ladder ladder({rung("broken", "broken_plugin"), rung("fused", "fused_adamw")});
  ladder.plans[1] = nullptr;
  EXPECT_EQ(ladder.check(2).reference_variant, 0);
  const auto checks = plan_gate(ladder.variants, ladder.plans);
  ASSERT_EQ(checks.size(), 2U);
  EXPECT_EQ(checks[0].variant, 0);
  EXPECT_EQ(checks[1].variant, 2);
  ladder.plans[0] = nullptr;
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

TEST(GatePlan, APlanThatIsNoneIsNamed) {
  Ladder ladder({bf16()});
  ladder.plans[1].erase("plugins");
  try {
    ladder.check(1);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("plan of 'bf16'"));
  }
}

GateCheck compared(double tolerance, double irreproducible = 1e-4) {
  GateCheck check;
  check.reference_variant = 0;
  check.tolerance = tolerance;
  check.tolerance_if_irreproducible = irreproducible;
  return check;
}

TEST(GateVerdict, ExactMeansBitEqual) {
  const LossCurve curve = {5, 4.5, 4};
  EXPECT_TRUE(judge(compared(0), {{curve}, {}, {curve}}).passed);
  const auto verdict = judge(compared(0), {{{5, std::nextafter(4.5, 5), 4}}, {}, {curve, curve}});
  EXPECT_FALSE(verdict.passed);
  EXPECT_TRUE(verdict.compared);
  EXPECT_EQ(verdict.at_step, 1);
  EXPECT_THAT(verdict.message, HasSubstr("none is allowed"));
}

TEST(GateVerdict, EachToleranceIsABound) {
  for (const double tolerance : {1e-9, 1e-4, 5e-3, 2e-2}) {
    const LossCurve reference = {5, 4.5, 4};
    const auto off_by = [&](double d) { return LossCurve{5, 4.5 * (1 + d), 4}; };
    EXPECT_TRUE(judge(compared(tolerance, tolerance), {{off_by(0.9 * tolerance)}, {}, {reference}}).passed)
        << tolerance;
    EXPECT_TRUE(judge(compared(tolerance, tolerance), {{off_by(-0.9 * tolerance)}, {}, {reference}}).passed)
        << tolerance;
    const auto verdict = judge(compared(tolerance, tolerance), {{off_by(1.1 * tolerance)}, {}, {reference}});
    EXPECT_FALSE(verdict.passed) << tolerance;
    EXPECT_NEAR(verdict.worst, 1.1 * tolerance, 0.01 * tolerance);
  }
}

TEST(GateVerdict, EveryRoundCounts) {
  const LossCurve good = {5, 4.5, 4}, bad = {5, 4.5, 3};
  EXPECT_TRUE(judge(compared(1e-4), {{good, good}, {}, {good}}).passed);
  EXPECT_FALSE(judge(compared(1e-4), {{good, bad}, {}, {good}}).passed);
}

TEST(GateVerdict, AProbeStandsForTheRung) {
  GateCheck check = compared(1e-4);
  check.subject = RunSpec{};
  const LossCurve reference = {5, 4.5, 4}, own = {9, 8, 7};
  EXPECT_TRUE(judge(check, {{own}, LossCurve{5, 4.5}, {reference}}).passed)
      << "over the steps that both have";
  EXPECT_FALSE(judge(check, {{own}, LossCurve{5, 4.6}, {reference}}).passed);
}

TEST(GateVerdict, EqualBitsAreNotAskedOfAnIrreproducibleMachine) {
  const LossCurve first = {5, 4.5, 4}, second = {5, 4.5 * (1 + 1e-7), 4};
  EXPECT_FALSE(judge(compared(0), {{second}, {}, {first, first}}).passed);
  const auto verdict = judge(compared(0), {{second}, {}, {first, second}});
  EXPECT_TRUE(verdict.passed);
  EXPECT_EQ(verdict.tolerance, 1e-4);
  EXPECT_THAT(verdict.message, HasSubstr("not bit-equal"));
  EXPECT_FALSE(judge(compared(0), {{{5, 4.6, 4}}, {}, {first, second}}).passed);
}

TEST(GateVerdict, AReferenceThatRanOnceIsAskedForARepeat) {
  const LossCurve reference = {5, 4.5, 4}, other = {5, 4.5 * (1 + 1e-7), 4};
  const auto open = judge(compared(0), {{other}, {}, {reference}});
  EXPECT_TRUE(open.undecided && open.passed);
  EXPECT_EQ(open.tolerance, 1e-4);
  EXPECT_THAT(open.message, HasSubstr("ran once"));
  const auto repeats = judge(compared(0), {{other}, {}, {reference}, reference});
  EXPECT_FALSE(repeats.passed || repeats.undecided) << "it repeats its own bits, so equal bits are asked for";
  const auto differs = judge(compared(0), {{other}, {}, {reference}, LossCurve{5, 4.5, 4 * (1 + 1e-7)}});
  EXPECT_TRUE(differs.passed && !differs.undecided);
  EXPECT_THAT(differs.message, HasSubstr("not bit-equal"));
  EXPECT_FALSE(judge(compared(0), {{reference}, {}, {reference}}).undecided) << "equal bits need no repeat";
  EXPECT_FALSE(judge(compared(0), {{{5, 4.6, 4}}, {}, {reference}}).passed) << "no repeat could excuse that";
  EXPECT_FALSE(judge(compared(1e-4), {{other}, {}, {reference}}).undecided);
}

TEST(GatePlan, TheRepeatIsOneMoreRunOfTheReference) {
  const Ladder ladder({rung("fused", "fused_adamw"), rung("checkpointing", "activation_checkpointing")});
  EXPECT_FALSE(ladder.check(1).repeat) << "equal bits are not asked for";
  const GateCheck exact = ladder.check(2);
  ASSERT_TRUE(exact.repeat);
  EXPECT_EQ(exact.repeat->purpose, "repeat");
  EXPECT_EQ(exact.repeat->variant, 1);
  EXPECT_EQ(exact.repeat->train.steps, ladder.variants[1].spec.train.steps) << "of the same length";
  EXPECT_EQ(run_id(ladder.variants[1], *exact.repeat), "01-fused-repeat");
}

TEST(GateVerdict, NotANumberNeverPasses) {
  const double nan = std::nan("");
  EXPECT_FALSE(judge(compared(2e-2), {{{5, nan, 4}}, {}, {{5, 4.5, 4}}}).passed);
  EXPECT_FALSE(judge(compared(2e-2), {{{5, 4.5, 4}}, {}, {{5, nan, 4}}}).passed);
  EXPECT_FALSE(judge(compared(2e-2), {{{}}, {}, {{5, 4.5, 4}}}).passed) << "no step at all";
}

TEST(GateVerdict, WithoutItsReferenceTheLossHasToFall) {
  const auto fell = judge(compared(0), {{{5, 4.5, 4, 3.9, 3.8, 3.7}}, {}, {}});
  EXPECT_TRUE(fell.passed);
  EXPECT_FALSE(fell.compared);
  EXPECT_THAT(fell.message, HasSubstr("reference did not run"));
  EXPECT_FALSE(judge(compared(0), {{{5, 5.1, 5.2, 5.3, 5.4, 5.5}}, {}, {}}).passed);
}

GateCheck falling() {
  GateCheck check;
  check.must_fall = true;
  return check;
}

TEST(GateVerdict, AFallingLoss) {
  const auto passes = [](LossCurve losses) { return judge(falling(), {{std::move(losses)}, {}, {}}).passed; };
  EXPECT_TRUE(passes({5, 4.9, 4.8, 4.7, 4.6, 4.5}));
  EXPECT_FALSE(passes({5, 5, 5, 5, 5, 5})) << "nothing is learned";
  EXPECT_FALSE(passes({5, 5.1, 5.2, 6, 7, 9}));
  EXPECT_FALSE(passes({5})) << "one step shows nothing";
  EXPECT_TRUE(passes({5.0, 5.2, 4.9, 5.1, 5.3, 5.0, 5.02, 5.21, 4.95}))
      << "batches differ more than it rises";
}

TEST(GateVerdict, AFunctionThatAgreesButDoesNotTrainFails) {
  GateCheck check = compared(1e-4);
  check.must_fall = true;
  const LossCurve flat(6, 5.0);
  EXPECT_FALSE(judge(check, {{flat}, {}, {flat}}).passed);
}
}  // namespace
}  // namespace optrush
