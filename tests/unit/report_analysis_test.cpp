#include "base/temporary_folder.h"
#include "report/analysis/analysis.h"
#include "report/sections/document.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "optrush/error.h"
#include "report/analysis/disturbed_round.h"
#include "report/analysis/quantities.h"
#include "report/numbers/format.h"
#include "report/numbers/verdict.h"
#include "report_fixture.h"

namespace optrush {
namespace {
using test::analysis_of;
using test::row;
using test::rung;
using test::setting;
using test::three_rungs;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

/// base, one, and a grid of which two combinations are those.
test::SyntheticReport equal_stacks() {
  test::SyntheticReport report("equal", 4);
  report.ladder({rung("one", "fused_adamw")});
  report.experiment.parts.push_back(
      {.arrangement = Arrangement::grid,
       .axes = {{setting("plain", Json::object()), rung("fused", "fused_adamw")},
                {setting("off", Json::object()), rung("flash", "flash_attention")}}});
  report.equals_run_once = true;
  report["one"] = {.tokens_per_second = 1500};
  report["plain + flash"] = {.tokens_per_second = 1200};
  report["fused + flash"] = {.tokens_per_second = 1800};
  return report;
}

TEST(Analysis, ARunAndItselfAreNoComparison) {
  const Analysis a = analysis_of(equal_stacks());
  EXPECT_EQ(a.missing_runs, 0U);
  const Row &plain = row(a, "plain + off"), &fused = row(a, "fused + off");
  EXPECT_EQ(plain.same_as, 0);
  EXPECT_EQ(plain.samples, row(a, "base").samples);
  EXPECT_TRUE(plain.base.speed->same_run);
  EXPECT_EQ(plain.base.speed->value, 1);
  EXPECT_EQ(describe(verdict_of(*plain.base.speed)), "the same run");
  EXPECT_FALSE(plain.base.speed->claim());
  EXPECT_EQ(fused.same_as, 1);
  EXPECT_EQ(*fused.base.speed, *row(a, "one").base.speed) << "against the base it is the rung of the ladder";
  EXPECT_THAT(fused.notes, Contains("the same run as 'one'"));
  EXPECT_THAT(finding_text(a), HasSubstr("fused + flash is the fastest combination"));
  EXPECT_THAT(finding_text(a), Not(HasSubstr("plain + off")));
  const auto sections = ladder_sections(a);
  EXPECT_THAT(sections.back().bullets,
              Contains("fused + off has the same stack as one, so it shows the same run."));
  EXPECT_EQ(sections.back().table->rows.front().at(2), "the same run");
}

TEST(Analysis, WhatBreaksTheGateIsBrokenWhereverItsRunIsShown) {
  test::SyntheticReport report = equal_stacks();
  report["one"].loss_error = 0.5;
  const Analysis a = analysis_of(report);
  EXPECT_EQ(row(a, "one").status, Status::broken);
  EXPECT_EQ(row(a, "fused + off").status, Status::broken);
}

TEST(Analysis, SpeedsAgainstPreviousAndBase) {
  const Analysis a = analysis_of(three_rungs());
  const Row& two = row(a, "two");
  EXPECT_EQ(two.previous.name, "one");
  EXPECT_EQ(two.base.name, "base");
  EXPECT_NEAR(two.previous.speed->value, 1.2, 0.01);
  EXPECT_NEAR(two.base.speed->value, 1.8, 0.01);
  EXPECT_TRUE(two.base.speed->claim());
  EXPECT_EQ(row(a, "three").previous.memory, 0.5);
  EXPECT_FALSE(row(a, "base").previous.speed);
  EXPECT_FALSE(a.any_failed());
  EXPECT_THAT(finding_text(a), HasSubstr("one gives the largest gain: 1.5"));
  EXPECT_THAT(finding_text(a), HasSubstr("three costs 11 % of the speed and saves 50 % of the peak memory"));
}

TEST(Analysis, TwoRoundsMakeNoClaim) {
  auto report = three_rungs();
  report.experiment.rounds = 2;
  const Analysis a = analysis_of(report);
  EXPECT_FALSE(row(a, "one").base.speed->interval);
  EXPECT_THAT(finding_text(a), HasSubstr("No claim"));
  EXPECT_THAT(finding_text(a), Not(HasSubstr("the largest gain")));
}

TEST(Analysis, ABrokenRungClaimsNothingAndIsNobodysReference) {
  auto report = three_rungs();
  report["one"].loss_error = 0.01;  // of the kind `rounding`
  const Analysis a = analysis_of(report);
  EXPECT_EQ(row(a, "one").status, Status::broken);
  EXPECT_THAT(row(a, "one").reason, HasSubstr("1.0e-02"));
  EXPECT_FALSE(row(a, "one").previous.speed);
  EXPECT_TRUE(row(a, "one").tokens_per_second) << "what it measured is still there";
  EXPECT_EQ(row(a, "two").previous.name, "base");
  EXPECT_EQ(row(a, "two").status, Status::ok);
  EXPECT_TRUE(a.any_failed());
  EXPECT_THAT(finding_text(a), HasSubstr("one broke the correctness gate"));
}

TEST(Analysis, LossesHaveADistanceFromWhatTheyAreComparedWith) {
  auto report = three_rungs();
  report["one"].loss_error = 0.01;
  const Analysis a = analysis_of(report);
  const auto& one = row(a, "one").losses_apart;
  ASSERT_EQ(one.size(), row(a, "one").steps.size());
  EXPECT_NEAR(*std::ranges::max_element(one), row(a, "one").verdict.loss.worst, 1e-12);
  EXPECT_THAT(row(a, "three").losses_apart, Each(0.0));
  EXPECT_TRUE(row(a, "base").losses_apart.empty()) << "it is compared with nothing";
}

TEST(Analysis, ABrokenRungIsNotCuredByABatchThatHidesIt) {
  auto report = three_rungs();
  report.experiment.parts[0].rungs.push_back(setting("batch", {{"train", {{"micro_batch", 8}}}}));
  report["three"].loss_error = 0.1;
  report["batch"].has_extra_runs = report["twice"].has_extra_runs = false;
  const Analysis a = analysis_of(report);
  EXPECT_EQ(row(a, "three").status, Status::broken);
  EXPECT_EQ(row(a, "batch").status, Status::broken);
  EXPECT_THAT(row(a, "batch").reason, HasSubstr("builds on 'three'"));
}

TEST(Analysis, TakingOffWhatBrokeARungCuresIt) {
  auto report = three_rungs();
  Rung larger = setting("batch", {{"train", {{"micro_batch", 8}}}});
  larger.without = {"activation_checkpointing"};
  report.experiment.parts[0].rungs.push_back(setting("twice", {{"train", {{"micro_batch", 8}}}}));
  report.experiment.parts[0].rungs.push_back(larger);
  report["three"].loss_error = 0.1;
  report["batch"].has_extra_runs = report["twice"].has_extra_runs = false;
  const Analysis a = analysis_of(report);
  EXPECT_EQ(row(a, "twice").status, Status::broken);
  EXPECT_THAT(row(a, "twice").reason, HasSubstr("builds on 'three'"));
  EXPECT_EQ(row(a, "batch").status, Status::ok) << row(a, "batch").reason;
  EXPECT_FALSE(row(a, "batch").checked);
}

TEST(Analysis, WhatHasFailedIsNotAwaited) {
  auto report = three_rungs();
  report["one"] = {.status = "oom", .reason = "out of memory", .rounds = 1};
  report["two"].rounds = 0;
  report["two"].has_plan = false;  // as with --only
  const Analysis a = analysis_of(report);
  EXPECT_EQ(a.missing_runs, 0U);
  EXPECT_THAT(finding_text(a), HasSubstr("one ran out of memory"));
  EXPECT_THAT(finding_text(a), Not(HasSubstr("two did not")));
}

TEST(Analysis, EqualBitsAreAskedOfExactRungs) {
  auto report = three_rungs();
  report["three"].loss_error = 1e-12;
  EXPECT_EQ(row(analysis_of(report), "three").status, Status::broken);
  report["two"].reproducible = false;
  EXPECT_EQ(row(analysis_of(report), "three").status, Status::ok)
      << "but not where the machine gives other bits";
}

TEST(Analysis, WithOneRoundARepeatOfTheReferenceDecides) {
  auto report = three_rungs();
  report.experiment.rounds = 1;
  report["three"].loss_error = 1e-12;
  EXPECT_EQ(row(analysis_of(report), "three").status, Status::broken) << "the reference repeats its bits";
  report["two"].reproducible = false;
  const Analysis elsewhere = analysis_of(report);
  EXPECT_EQ(row(elsewhere, "three").status, Status::ok) << "here it does not";
  EXPECT_TRUE(row(elsewhere, "three").checked);
  report["three"].has_extra_runs = false;
  const Analysis open = analysis_of(report);
  EXPECT_EQ(row(open, "three").status, Status::ok);
  EXPECT_FALSE(row(open, "three").checked) << "nobody knows";
}

TEST(Analysis, PublishedFiguresStandBesideTheMeasured) {
  auto report = three_rungs();
  report.experiment.parts[0].rungs[0].expect =
      Published{.speedup = 1.75, .memory = 0.7, .source = "a paper", .on = "A100-80GB, sequence 2048"};
  const Analysis a = analysis_of(report);
  ASSERT_TRUE(row(a, "one").published);
  EXPECT_EQ(row(a, "one").published->speedup, 1.75);
  EXPECT_FALSE(row(a, "one").published_here) << "the synthetic device is none";
  EXPECT_FALSE(row(a, "two").published);
  const Section section = published_section(a);
  ASSERT_TRUE(section.table);
  ASSERT_EQ(section.table->rows.size(), 1U);
  EXPECT_THAT(section.table->rows[0], ::testing::Contains("(1.75x)"));
  EXPECT_THAT(section.table->rows[0], ::testing::Contains("(-30.0 %)"));
  EXPECT_FALSE(section.bullets.empty());
}

TEST(Published, IsComparableOnTheSameKindOfDevice) {
  const Published published{.speedup = 2, .source = "x", .on = "A100-80GB, sequence 2048"};
  EXPECT_TRUE(published.comparable_with("NVIDIA A100-SXM4-80GB"));
  EXPECT_TRUE(published.comparable_with("NVIDIA A100 80GB PCIe"));
  EXPECT_FALSE(published.comparable_with("NVIDIA A100-SXM4-40GB"));
  EXPECT_FALSE(published.comparable_with("NVIDIA H200"));
  EXPECT_FALSE(published.comparable_with(""));
}

TEST(Analysis, RunsThatEndedBadlyAreRows) {
  auto report = three_rungs();
  report["one"] = {.status = "oom", .reason = "out of memory"};
  report["two"].status = "crashed";
  report["two"].reason = "SIGSEGV";
  report["two"].bad_round = 1;
  const Analysis a = analysis_of(report);
  EXPECT_EQ(row(a, "one").status, Status::oom);
  EXPECT_FALSE(row(a, "one").tokens_per_second);
  EXPECT_EQ(row(a, "two").status, Status::crashed) << "one bad round of three";
  EXPECT_EQ(row(a, "two").reason, "round 2: SIGSEGV");
  EXPECT_EQ(row(a, "two").samples.size(), 2U);
  EXPECT_EQ(row(a, "three").previous.name, "base");
  EXPECT_EQ(row(a, "three").status, Status::ok);
}

TEST(Analysis, AWrongGradientScaleIsBroken) {
  auto report = three_rungs();
  report["one"].norm_factor = 2;  // a sum in place of a mean: AdamW's losses are the same
  const Analysis a = analysis_of(report);
  EXPECT_EQ(row(a, "one").status, Status::broken);
  EXPECT_THAT(row(a, "one").reason,
              HasSubstr("the gradient norm of step 0 is 3, 2 times the reference's 1.5"));
  EXPECT_EQ(row(a, "two").status, Status::ok);
}

TEST(Analysis, AnotherProgramNeedNotReportGradientNorms) {
  auto report = three_rungs();
  Rung program = setting("program", Json::object());
  program.external = External{.command = {"train"}};
  report.experiment.parts[0].rungs.push_back(program);
  report["program"].grad_norm = std::nan("");
  const Analysis a = analysis_of(report);
  const Row& without = row(a, "program");
  EXPECT_EQ(without.status, Status::ok) << without.reason;
  EXPECT_TRUE(without.checked && without.verdict.compared);
  EXPECT_THAT(without.gate, HasSubstr("reports no gradient norms, so only losses are compared"));
  report["program"].grad_norm = 3;
  EXPECT_EQ(row(analysis_of(report), "program").status, Status::broken) << "what it reports is compared";
  report["program"].grad_norm = std::nan("");
  report["program"].loss_error = 0.1;
  EXPECT_EQ(row(analysis_of(report), "program").status, Status::broken);
}

TEST(Analysis, AnotherProgramMeetsTheFastestRung) {
  auto report = three_rungs();
  for (const auto& [name, speed] : {std::pair("slow program", 900.0), std::pair("fast program", 1700.0)}) {
    Rung program = setting(name, Json::object());
    program.external = External{.command = {"train"}};
    report.experiment.parts[0].rungs.push_back(program);
    report[name].tokens_per_second = speed;
  }
  const Analysis a = analysis_of(report);
  ASSERT_EQ(a.programs.size(), 2U);
  EXPECT_EQ(a.row(a.programs[0].variant)->name, "fast program") << "the fastest first";
  for (const auto& program : a.programs) EXPECT_EQ(a.row(program.fastest)->name, "two");
}

TEST(Analysis, APeakOfNothingHasNoErrorOfItsPrediction) {
  auto report = three_rungs();
  report["one"].peak_bytes = 0;
  const Analysis a = analysis_of(report);
  EXPECT_FALSE(row(a, "one").prediction_error);
  EXPECT_NEAR(row(a, "two").prediction_error.value_or(0), -0.1, 1e-6);
}

TEST(Analysis, WhatNothingIsComparedWithIsNotChecked) {
  test::SyntheticReport report("alone", 3);
  report.ladder({rung("lora", "lora")});
  const Analysis a = analysis_of(report);
  EXPECT_EQ(row(a, "lora").status, Status::ok);
  EXPECT_FALSE(row(a, "lora").checked);
  EXPECT_TRUE(row(a, "base").checked);
  EXPECT_THAT(row(a, "lora").verdict.message, HasSubstr("the check for a falling loss needs 12 steps"));
  report["lora"].falls = false;
  EXPECT_EQ(row(analysis_of(report), "lora").status, Status::ok);
  report.experiment.base.train.steps = 10;
  EXPECT_EQ(row(analysis_of(report), "lora").status, Status::broken);
}

TEST(Analysis, NothingTrainsWithoutAGradient) {
  for (const double norm : {0.0, std::nan("")}) {
    auto report = three_rungs();
    report["one"].grad_norm = norm;
    const Analysis a = analysis_of(report);
    EXPECT_EQ(row(a, "one").status, Status::failed);
    EXPECT_THAT(row(a, "one").reason, HasSubstr("gradient norm"));
  }
}

TEST(Analysis, MoreThanThePeakIsAnError) {
  auto report = three_rungs();
  report["two"].flops_per_token = 1e10;  // 1.8e13 of 1e13 FLOP/s
  const Analysis a = analysis_of(report);
  EXPECT_EQ(row(a, "two").status, Status::failed);
  EXPECT_THAT(row(a, "two").reason, HasSubstr("above 100 %"));
  EXPECT_NEAR(*row(a, "one").mfu, 0.15, 0.001);
  EXPECT_NEAR(*row(a, "one").mfu_causal, 0.135, 0.001);
  EXPECT_NEAR(*row(a, "one").hfu, 0.18, 0.001);
}

/// Masking a prompt saves no work: what is trained says nothing of the speed.
TEST(Analysis, SpeedAndUtilizationAreOfTheTokensThatAreProcessed) {
  auto report = three_rungs();
  const Analysis all = analysis_of(report);
  report["two"].trained = 0.1;
  const Analysis a = analysis_of(report);
  EXPECT_EQ(row(a, "two").tokens_per_second, row(all, "two").tokens_per_second);
  EXPECT_NEAR(*row(a, "two").trained_tokens_per_second, 0.1 * *row(a, "two").tokens_per_second, 0.01);
  EXPECT_EQ(row(a, "two").previous.speed->value, row(all, "two").previous.speed->value);
  EXPECT_EQ(row(a, "two").mfu, row(all, "two").mfu);
  EXPECT_EQ(row(a, "two").hfu, row(all, "two").hfu);
  EXPECT_EQ(row(a, "one").trained_tokens_per_second, row(a, "one").tokens_per_second);
  EXPECT_TRUE(row(a, "two").trains_on_fewer());
  EXPECT_FALSE(row(a, "one").trains_on_fewer());
  EXPECT_EQ(row(a, "two").padding, 0);
}

TEST(Analysis, PaddingIsNoTokenThatIsProcessed) {
  auto report = three_rungs();
  const double full = *row(analysis_of(report), "two").tokens_per_second;
  report["two"].padding = 0.25;
  const Analysis a = analysis_of(report);
  EXPECT_NEAR(*row(a, "two").tokens_per_second, 0.75 * full, 0.01);
  EXPECT_NEAR(*row(a, "two").padding, 0.25, 1e-9);
  EXPECT_TRUE(row(a, "two").trains_on_fewer());
}

TEST(Analysis, BothCountsStandSideBySideWhereTheyDiffer) {
  const auto shown = [](const Analysis& a) { return throughput_section(a, families_of(a).front()); };
  const auto titles = [](const Section& section) {
    std::vector<std::string> titles;
    for (const auto& column : section.table->columns) titles.push_back(column.title);
    return titles;
  };
  auto report = three_rungs();
  EXPECT_THAT(titles(shown(analysis_of(report))), Not(Contains("trained tokens/s")));
  report["two"].trained = 0.1;
  report["two"].padding = 0.5;
  const Analysis a = analysis_of(report);
  const Section section = shown(a);
  EXPECT_THAT(titles(section), IsSupersetOf({"trained tokens/s", "padding"}));
  const auto& cells = section.table->rows.at(2);
  EXPECT_EQ(cells.front(), "two");
  EXPECT_EQ(cells[cells.size() - 2], grouped(*row(a, "two").trained_tokens_per_second));
  EXPECT_EQ(cells.back(), "50.0 %");
  EXPECT_THAT(section.bullets, Contains(HasSubstr("Tokens/s count processed tokens")));
  // In the table that a report opens with, too.
  const Section first = ladder_sections(a).front();
  EXPECT_EQ(titles(first)[1] + ", " + titles(first)[2], "tokens/s, trained tokens/s");
  EXPECT_EQ(first.table->rows.at(2)[2], grouped(*row(a, "two").trained_tokens_per_second));
  EXPECT_EQ(first.table->bars.front().column, 3U);
  EXPECT_THAT(first.bullets, Contains(HasSubstr("trained tokens/s count tokens with a loss")));
  report["two"].trained = 1;
  report["two"].padding = 0;
  EXPECT_THAT(titles(ladder_sections(analysis_of(report)).front()), Not(Contains("trained tokens/s")));
}

TEST(Analysis, EachRoundsFlopsGoWithItsOwnSpeed) {
  const TemporaryFolder folder;
  three_rungs().write(folder.path());
  Stored stored = load_report(folder.path());
  // Rounds may time other steps: half the tokens a second of twice the FLOPs each are the same work.
  for (StoredRun& run : stored.runs)
    if (run.spec.rung == "one" && run.spec.purpose == Purpose::measure && run.spec.round > 0) {
      *run.result.mfu_flops *= 2;
      *run.result.tokens_per_second /= 2;
    }
  EXPECT_NEAR(*row(analyze(stored), "one").mfu, *row(analysis_of(three_rungs()), "one").mfu, 1e-3);
}

TEST(Analysis, WithoutAKnownPeakThereIsNoMfu) {
  auto report = three_rungs();
  report.context.erase("peak");
  EXPECT_FALSE(row(analysis_of(report), "one").mfu);
  EXPECT_TRUE(row(analysis_of(report), "one").model_flops_per_second);
}

TEST(Analysis, AnotherBatchIsSaidToBeAnotherProblem) {
  auto report = three_rungs();
  report.experiment.parts[0].rungs.push_back(setting("batch", {{"train", {{"micro_batch", 8}}}}));
  report.experiment.parts[0].rungs.push_back(rung("after", "clip_grad_norm"));
  const Analysis a = analysis_of(report);
  EXPECT_EQ(row(a, "batch").status, Status::ok) << row(a, "batch").reason;
  EXPECT_TRUE(row(a, "batch").verdict.compared);
  EXPECT_EQ(row(a, "batch").previous.differs, "8 instead of 4 sequences per step");
  EXPECT_EQ(row(a, "after").previous.differs, "");
  EXPECT_EQ(row(a, "after").previous.name, "batch");
  EXPECT_EQ(row(a, "after").base.differs, "8 instead of 4 sequences per step");
  EXPECT_TRUE(row(a, "after").base.speed);
}

TEST(Analysis, AProbeJudgesAccumulation) {
  auto report = three_rungs();
  report.experiment.parts[0].rungs.push_back(rung("accumulate", "gradient_accumulation", {{"steps", 4}}));
  report["accumulate"].loss_error = 0.04;  // at its own batch: nobody's business
  EXPECT_EQ(row(analysis_of(report), "accumulate").status, Status::ok);
  report["accumulate"].probe_loss_error = 0.01;
  EXPECT_EQ(row(analysis_of(report), "accumulate").status, Status::broken);
}

TEST(Finding, OfALadderOfOtherTasksItIsNotSaidThatNothingPays) {
  auto report = three_rungs();
  for (const char* name : {"one", "two", "three"}) report[name].tokens_per_second = 990;
  EXPECT_THAT(finding_text(analysis_of(report)), HasSubstr("No rung is shown to make training faster"));
  report.experiment.parts[0].rungs.insert(report.experiment.parts[0].rungs.begin(), rung("lora", "lora"));
  report["lora"].tokens_per_second = 1300;
  const std::string finding = finding_text(analysis_of(report));
  EXPECT_THAT(finding, Not(HasSubstr("o rung is shown")));
  EXPECT_THAT(finding, HasSubstr("lora trains 1.3"));
}

TEST(Analysis, APlainFormJudgesAnotherFunction) {
  auto report = three_rungs();
  report.experiment.parts[0].rungs.push_back(rung("lora", "lora"));
  EXPECT_EQ(row(analysis_of(report), "lora").status, Status::ok);
  EXPECT_EQ(row(analysis_of(report), "lora").previous.differs, "another function or task");
  report["lora"].loss_error = 0.01;
  EXPECT_EQ(row(analysis_of(report), "lora").status, Status::broken);
  report["lora"].loss_error = 0;
  report["lora"].falls = false;
  EXPECT_EQ(row(analysis_of(report), "lora").status, Status::ok) << "6 steps show no fall";
  report.experiment.base.train.steps = 10;
  EXPECT_EQ(row(analysis_of(report), "lora").status, Status::broken);
}

TEST(Analysis, WhatCouldNotBeComparedIsSaid) {
  auto report = three_rungs();
  report.experiment.parts[0].rungs.push_back(rung("lora", "lora"));
  report["lora"].has_extra_runs = false;
  const Analysis a = analysis_of(report);
  EXPECT_EQ(row(a, "lora").status, Status::ok);
  EXPECT_FALSE(row(a, "lora").checked);
  EXPECT_THAT(row(a, "lora").notes, Contains(HasSubstr("its reference did not run")));
}

TEST(Analysis, AnInterruptedExperimentIsReportedAsFarAsItWent) {
  auto report = three_rungs();
  report["two"].rounds = 1;
  report["three"].rounds = 0;
  const Analysis a = analysis_of(report);
  EXPECT_EQ(a.missing_runs, 5U);
  EXPECT_THAT(finding_text(a), HasSubstr("5 runs have no result yet"));
  EXPECT_EQ(row(a, "two").status, Status::ok);
  EXPECT_THAT(row(a, "two").notes, Contains("1 of 3 rounds ran"));
  EXPECT_EQ(row(a, "two").previous.speed->rounds, 1U) << "paired by round";
  EXPECT_EQ(row(a, "three").status, Status::skipped);
  EXPECT_FALSE(a.any_failed()) << "not run yet is no failure";
}

TEST(Analysis, WhenTheBaseFailsAnotherRowStandsInForIt) {
  auto report = three_rungs();
  report["base"] = {.status = "oom", .reason = "out of memory"};
  const Analysis a = analysis_of(report);
  EXPECT_EQ(row(a, "three").base.name, "one");
  EXPECT_THAT(row(a, "three").notes, Contains(HasSubstr("'one' replaces it")));
  EXPECT_FALSE(row(a, "one").base.speed);
}

TEST(Finding, SaysWhatStandsInForABaseThatFailed) {
  auto report = three_rungs();
  report["base"] = {.status = "oom", .reason = "out of memory"};
  EXPECT_THAT(finding_text(analysis_of(report)),
              HasSubstr("it is compared with one, because the base has no result"));
}

TEST(Finding, ARungIsNotRankedByWhatItDoesTogetherWithOthers) {
  auto report = three_rungs();
  report["two"] = {.status = "timeout", .reason = "no end"};
  report["three"] = {.tokens_per_second = 2400};
  report.experiment.parts[0].rungs[2].expect =
      Published{.speedup = 1.5, .memory = 0.5, .source = "somebody", .on = "a device"};
  const Analysis a = analysis_of(report);
  EXPECT_THAT(row(a, "three").previous.between, ElementsAre("two"));
  EXPECT_THAT(row(a, "two").previous.between, IsEmpty());
  EXPECT_THAT(finding_text(a), HasSubstr("one gives the largest gain"));
  EXPECT_THAT(finding_text(a), HasSubstr("three, together with two, trains 1.60x [1.5"));
  EXPECT_THAT(finding_text(a), HasSubstr("as fast as one"));
  const Section published = published_section(a);
  ASSERT_TRUE(published.table);
  EXPECT_EQ(published.table->rows.at(0).at(1), kUnknown) << "that is not what was published";
}

TEST(Finding, SaysMostOnlyOfWhatIsKnown) {
  auto report = three_rungs();
  Analysis a = analysis_of(report);
  EXPECT_THAT(finding_text(a), HasSubstr("one gives the largest gain"));
  Row& two = a.rows[2];
  two.previous.speed->value = 3;
  two.previous.speed->interval = Interval{0.9, 10};
  EXPECT_THAT(findings(a), Contains(HasSubstr("one gives the largest certain gain: 1.5")));
  auto ablation = test::ablation();
  a = analysis_of(ablation);
  a.ablation.front().in_stack->interval = Interval{0.5, 9};
  EXPECT_THAT(findings(a), Contains(HasSubstr("makes the largest certain contribution")));
}

TEST(Finding, OfATrainingAloneItTellsTheLoss) {
  test::SyntheticReport report("alone", 1);
  EXPECT_THAT(finding_text(analysis_of(report)), HasSubstr("base trains 1,0"));
  EXPECT_THAT(finding_text(analysis_of(report)), HasSubstr(" tokens/s to a loss of 4.7"));
}

TEST(Finding, OfASearchItTellsWhatItKnows) {
  Analysis a = analysis_of(three_rungs());
  a.tried = Tried{.best = "flash",
                  .stages = {{"base", {{"flash", "+ flash", 1.4, 4, true, "1.39x [1.33, 1.45], faster"}}}}};
  EXPECT_EQ(findings(a).front(),
            "The search found flash (against base: 1.39x [1.33, 1.45], faster); its time ended before it had "
            "tried every move, so a longer --at-most may find a faster stack.");
  a.tried->best = "base";
  a.tried->finished = true;
  TriedStack& flash = a.tried->stages[0].stacks[0];
  flash.faster = false;
  flash.speed = 0.98;
  EXPECT_EQ(findings(a).front(), "The search found nothing that is faster than the base.");
  flash.speed = 1.03;
  flash.result = "1.030x [0.990, 1.072]";
  EXPECT_EQ(
      findings(a).front(),
      "The search found nothing that is shown to be faster than the base; best so far: flash, 1.030x [0.990, "
      "1.072].");
  flash.speed = 1.54;
  flash.rounds = 2;
  a.tried->answered = false;
  a.tried->decides_s = 150;
  EXPECT_EQ(
      findings(a).front(),
      "The search has no answer yet: its time was enough for fewer than 3 rounds; best so far: flash, 1.54x "
      "as fast as the base in 2 rounds; about 3 min more would decide (--resume --at-most 4m).");
  flash.speed = 0.9;
  EXPECT_THAT(findings(a).front(),
              HasSubstr("fewer than 3 rounds; no stack was faster than the base so far "
                        "(nearest: flash, 0.90x as fast as the base in 2 rounds); about"));
}

TEST(Finding, ALadderWhoseTopFailedIsNotCalledWhole) {
  auto report = three_rungs();
  report["three"] = {.status = "timeout", .reason = "no end"};
  EXPECT_THAT(finding_text(analysis_of(report)), HasSubstr("The ladder up to two trains"));
  // Whatever stands after the ladder.
  report.experiment.parts.push_back(
      {Arrangement::grid, {}, {{setting("plain", Json::object()), rung("cast", "mixed_precision")}}});
  EXPECT_THAT(finding_text(analysis_of(report)), HasSubstr("The ladder up to two trains"));
}

TEST(Finding, ARefusedRungMakesNoBranch) {
  auto report = three_rungs();
  report.refused = {"two"};
  report["two"] = {.status = "failed", .reason = "conflict"};
  report["one"] = {.tokens_per_second = 1200};
  report["three"] = {.tokens_per_second = 1100, .peak_bytes = 1 << 28};
  const std::string finding = finding_text(analysis_of(report));
  EXPECT_THAT(finding, HasSubstr("The whole ladder trains 1.10x"));
  EXPECT_THAT(finding, HasSubstr("takes 75 % less peak memory"));
}

TEST(Finding, WhatIsNear1HasTheDigitsThatTellIt) {
  Analysis a;
  for (const char* name : {"base", "a", "b"}) {
    Row row;
    row.variant = static_cast<int64_t>(a.rows.size());
    row.name = name;
    row.group = row.variant == 0 ? "base" : "ladder";
    row.memory.allocated = row.variant == 2 ? 1 << 20 : 1 << 21;
    row.tokens_per_second = 1000;
    row.rounds.resize(3);
    const double value = row.variant == 1 ? 1.004 : 0.996;
    if (row.variant > 0) {
      row.previous = {.variant = row.variant - 1, .name = a.rows.back().name};
      row.previous.speed =
          Ratio{.value = value, .interval = Interval{value - 0.002, value + 0.002}, .rounds = 3};
      row.previous.memory = row.variant == 2 ? 0.5 : 1;
      row.base = row.previous;
      row.base.variant = 0;
    }
    a.rows.push_back(row);
    a.variants.push_back(
        {.index = row.variant, .name = name, .group = row.group, .previous = row.variant - 1});
  }
  const std::vector<std::string> parts = findings(a);
  EXPECT_THAT(parts, Contains(HasSubstr("a gives the largest gain: 1.004x [1.002, 1.006]")));
  EXPECT_THAT(parts, Contains(HasSubstr("b costs 0.4 % of the speed and saves 50 % of the peak memory")));
}

TEST(Analysis, AChangeOfTheLossSaysOfWhichStep) {
  auto report = three_rungs();
  report.experiment.base.train.steps = 20;
  report.experiment.parts[0].rungs.push_back(setting("batch", {{"train", {{"micro_batch", 8}}}}));
  const Analysis a = analysis_of(report);
  EXPECT_EQ(row(a, "two").loss_change_at, 22);
  EXPECT_LT(row(a, "batch").loss_change_at, 22);
  const auto rows = loss_section(families_of(a).front()).table->rows;
  EXPECT_THAT(rows[4], Contains(HasSubstr("at step " + std::to_string(row(a, "batch").loss_change_at))));
  EXPECT_THAT(rows[2], Not(Contains(HasSubstr("at step"))));
}

TEST(Analysis, DriftIsTheBaseAfterEverythingElse) {
  auto report = three_rungs();
  EXPECT_FALSE(analysis_of(report).drift);
  report.drift_tokens_per_second = 900;
  const Analysis a = analysis_of(report);
  EXPECT_NEAR(a.drift->last / a.drift->first, 0.9, 0.01);
  EXPECT_EQ(row(a, "base").samples.size(), 3U) << "it is no fourth round";
}

Row measured(const std::string& name, std::vector<double> samples) {
  Row row;
  row.name = name;
  row.rounds.resize(samples.size());
  std::iota(row.rounds.begin(), row.rounds.end(), 0);
  row.samples = std::move(samples);
  return row;
}

TEST(DisturbedRounds, AreFarFromTheRowsOthersAndFromTheRoundsOthers) {
  const Row steady = measured("steady", {500, 510, 490}), fast = measured("fast", {900, 1000, 950});
  EXPECT_TRUE(disturbed_rounds({steady, fast}).empty());
  const auto slow = disturbed_rounds({measured("base", {184, 951, 1519}), steady, fast});
  ASSERT_EQ(slow.size(), 1U);
  EXPECT_EQ(slow[0].row, "base");
  EXPECT_EQ(slow[0].round, 0);
  EXPECT_NEAR(slow[0].speed, 184.0 / 951, 0.02);
  EXPECT_THAT(disturbed_warning(slow), HasSubstr("disturbed in round 1 of base (0.20 times its speed"));
  const auto quick = disturbed_rounds({steady, fast, measured("lucky", {100, 100, 250})});
  ASSERT_EQ(quick.size(), 1U);
  EXPECT_EQ(quick[0].round, 2);
  EXPECT_TRUE(disturbed_rounds({measured("two", {100, 500}), steady, fast}).empty()) << "nobody knows which";
  EXPECT_TRUE(disturbed_rounds({measured("a", {100, 500, 520}), measured("b", {200, 1000, 900})}).empty())
      << "the whole round was slow: it cancels";
}

TEST(DisturbedRounds, AreAWarningThatNamesTheFirst) {
  EXPECT_EQ(disturbed_warning({}), "");
  std::vector<DisturbedRound> many(6, {"x", 4, 0.25});
  EXPECT_THAT(disturbed_warning(many),
              HasSubstr("round 5 of x (0.25 times its speed in the other rounds), 2 more."));
  Analysis a = analysis_of(three_rungs());
  EXPECT_TRUE(warnings_of(a).empty());
  a.rows[1].samples.back() /= 4;
  EXPECT_THAT(warnings_of(a), Contains(HasSubstr("disturbed in round 3 of one")));
}

TEST(Analysis, RungsWithTheSameWarningShareALine) {
  Analysis a = analysis_of(three_rungs());
  for (const size_t row : {0, 1}) a.rows[row].warnings = {"most of an update is lost"};
  a.rows[1].warnings.push_back("memory grows");
  EXPECT_THAT(warnings_of(a), ElementsAre("base, one: most of an update is lost.", "one: memory grows."));
}

TEST(Analysis, ABaseThatDriftsFarIsAWarningAtTheTop) {
  auto report = three_rungs();
  report.drift_tokens_per_second = 950;
  EXPECT_TRUE(make_document(analysis_of(report)).warnings.empty());
  report.drift_tokens_per_second = 650;
  const Document document = make_document(analysis_of(report));
  ASSERT_EQ(document.warnings.size(), 1U);
  EXPECT_THAT(document.warnings[0], HasSubstr("changed by -34.8 % from its rounds"));
}

TEST(Analysis, AFindingWithoutARivalDoesNotBlameTheRounds) {
  auto report = three_rungs();
  for (const char* name : {"one", "two", "three"}) report[name].loss_error = 0.1;
  const Analysis a = analysis_of(report);
  EXPECT_THAT(finding_text(a), HasSubstr("Only base succeeded, so there is nothing to compare"));
  EXPECT_THAT(finding_text(a), Not(HasSubstr("fewer than")));
}

TEST(Analysis, ACombinationOfAnotherProblemIsNotTheFastest) {
  EXPECT_THAT(finding_text(analysis_of(test::grid())),
              HasSubstr("s512 + flash is the fastest combination with the base's problem"));
}

TEST(Analysis, WhereEveryCombinationIsSlowerNoneIsCalledTheFastest) {
  auto report = test::grid();
  report["s512 + flash"].tokens_per_second = 900;
  EXPECT_THAT(finding_text(analysis_of(report)),
              HasSubstr("No combination with the base's problem is faster than the base; the nearest is s512 "
                        "+ flash: 0.9"));
  report["s512 + flash"].tokens_per_second = 1001;
  EXPECT_THAT(finding_text(analysis_of(report)),
              HasSubstr("is shown to be faster than the base; the nearest is"));
}

TEST(Analysis, ALossIsHeldAgainstANamedRung) {
  auto report = three_rungs();
  report.experiment.parts[0].rungs.push_back(setting("batch", {{"train", {{"micro_batch", 8}}}}));
  report["two"].loss_error = 0.1;
  const Analysis a = analysis_of(report);
  EXPECT_EQ(row(a, "three").loss_against, "one") << "the row before is broken";
  EXPECT_EQ(row(a, "batch").loss_against, "its reference run");
  EXPECT_THAT(loss_section(families_of(a).front()).table->rows[3], Contains(HasSubstr("from one")));
}

TEST(Analysis, PriceAndEnergyOfATask) {
  auto report = three_rungs();
  report.experiment.price_per_hour = 3.6;
  const Analysis a = analysis_of(report);
  EXPECT_NEAR(*number_of(quantity("cost_per_million_tokens"), a, row(a, "base")), 1.0, 0.01);
  EXPECT_FALSE(number_of(quantity("joules_per_token"), a, row(a, "base")));
}

TEST(Finding, SaysWhatMakesNoDifferenceAndWhatCantBeTold) {
  auto report = three_rungs();
  report["two"] = {.tokens_per_second = 1501};
  const Analysis a = analysis_of(report);
  EXPECT_THAT(finding_text(a), HasSubstr("two makes no difference above"));
  EXPECT_THAT(finding_text(a), HasSubstr("three (1.07x"));
}

TEST(Finding, AnotherProblemIsNeverTheFastest) {
  auto report = three_rungs();
  report.experiment.parts[0].rungs.push_back(setting("batch", {{"train", {{"micro_batch", 8}}}}));
  report["batch"] = {.tokens_per_second = 3000};
  const Analysis a = analysis_of(report);
  EXPECT_THAT(finding_text(a), HasSubstr("one gives the largest gain"));
  EXPECT_THAT(finding_text(a), HasSubstr("batch trains 1.8"));
  EXPECT_THAT(finding_text(a),
              HasSubstr("as many tokens/s as three, on another problem (8 instead of 4 sequences per step)"));
  report.experiment.rounds = 2;
  EXPECT_THAT(finding_text(analysis_of(report)), Not(HasSubstr("(batch)")))
      << "nor has it the fastest median";
}

TEST(Finding, WhatTrainsWorseIsSaid) {
  auto report = three_rungs();
  report.experiment.base.train.steps = 12;
  report.experiment.parts[0].rungs.push_back(
      setting("larger steps", {{"train", {{"lr", 0.1}}}}));  // another task: held against its plain form
  report["larger steps"] = {.tokens_per_second = 3000, .loss_error = 0.1};
  report["larger steps"].has_extra_runs = false;
  const Analysis a = analysis_of(report);
  ASSERT_TRUE(row(a, "larger steps").ok()) << row(a, "larger steps").reason;
  ASSERT_TRUE(row(a, "larger steps").base.worse);
  EXPECT_THAT(finding_text(a), HasSubstr("larger steps trains worse than"));
  EXPECT_THAT(finding_text(a), HasSubstr("one gives the largest gain"));
  report.experiment.rounds = 2;
  EXPECT_THAT(finding_text(analysis_of(report)), Not(HasSubstr("(larger steps)")));
}

TEST(Analysis, AblationRanksByWorthInTheStack) {
  const Analysis a = analysis_of(test::ablation());
  ASSERT_EQ(a.ablation.size(), 3U);
  EXPECT_EQ(a.ablation[0].rung, "bf16");
  EXPECT_NEAR(a.ablation[0].in_stack->value, 2.0, 0.01);
  EXPECT_NEAR(a.ablation[0].alone->value, 1.9, 0.01);
  EXPECT_LT(a.ablation[0].in_stack->interval->low, a.ablation[0].in_stack->interval->high);
  EXPECT_EQ(a.ablation[1].rung, "fused AdamW");
  EXPECT_EQ(verdict_of(*a.ablation[2].in_stack).outcome, Outcome::alike);
  EXPECT_EQ(a.ablation[2].in_stack->standard,
            row(a, "without " + a.ablation[2].rung).previous.speed->standard);
  EXPECT_EQ(a.ablation[0].memory_in_stack, 0.5);
  EXPECT_EQ(a.ablation[0].memory_alone, 0.75);
  EXPECT_THAT(finding_text(a), HasSubstr("bf16 makes the largest contribution"));
}
}  // namespace
}  // namespace optrush
