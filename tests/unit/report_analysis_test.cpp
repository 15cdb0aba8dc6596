// Rows of a report: status, speeds against other rows, memory, utilization, published figures.
#include "analysis/analysis.h"
#include "report/claims/claims.h"

#include <gmock/gmock.h>

#include "analysis/grid.h"
#include "analysis/numbers/format.h"
#include "analysis/numbers/verdict.h"
#include "analysis/quantities.h"
#include "base/temporary_folder.h"
#include "base/text.h"
#include "report/sections/document.h"
#include "report_fixture.h"

namespace optrush {
namespace {
using test::analysis_of;
using test::row;
using test::rung;
using test::setting;
using test::SyntheticReport;
using test::three_rungs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

/// The base, "one", and a grid. Two of its combinations equal the base and "one".
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

TEST(Analysis, RunIsNotComparedWithItself) {
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
  EXPECT_EQ(*fused.base.speed, *row(a, "one").base.speed)
      << "the comparison with the base equals the one of the shared run";
  EXPECT_THAT(fused.notes, Contains("the same run as 'one'"));
  EXPECT_THAT(finding_text(a), HasSubstr(", the fastest combination"));
  EXPECT_THAT(finding_text(a), Not(HasSubstr("plain + off")));
  const auto sections = ladder_sections(a);
  EXPECT_THAT(sections.back().bullets,
              Contains("fused + off has the same stack as one, so it shows the same run."));
  EXPECT_EQ(sections.back().table->rows.front().at(2), "the same run");
}

TEST(Analysis, BrokenRunIsBrokenInEveryRow) {
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
  EXPECT_THAT(finding_text(a), HasSubstr("one (1.5"));
  EXPECT_THAT(finding_text(a),
              ContainsRegex("three \\(0.89x \\[.*\\], 50 % less memory\\) makes training slower"));
}

TEST(Analysis, IntervalsOfAReportHoldTogether) {
  auto report = three_rungs();
  const Analysis a = analysis_of(report);
  EXPECT_EQ(a.standard.intervals, 5U) << "three to the previous row, and two more to the base";
  EXPECT_GT(a.standard.variance.degrees, 0);
  EXPECT_EQ(row(a, "two").base.speed->standard, a.standard);
  report.experiment.until = Until{.within = 0.02, .at_most_s = 60, .race = true};
  EXPECT_EQ(analysis_of(report).standard, standard_of(report.experiment)) << "a race makes no claims";
}

TEST(Analysis, TwoRoundsMakeNoClaim) {
  auto report = three_rungs();
  report.experiment.rounds = 2;
  const Analysis a = analysis_of(report);
  EXPECT_FALSE(row(a, "one").base.speed->interval);
  EXPECT_THAT(finding_text(a), HasSubstr("No claim"));
  EXPECT_THAT(finding_text(a), Not(HasSubstr("gains most")));
}

TEST(Analysis, FailedRunsAreNotMissing) {
  auto report = three_rungs();
  report["one"] = {.status = "oom", .reason = "out of memory", .rounds = 1};
  report["two"].rounds = 0;
  report["two"].has_plan = false;  // as with --only
  const Analysis a = analysis_of(report);
  EXPECT_EQ(a.missing_runs, 0U);
  EXPECT_THAT(finding_text(a), HasSubstr("one ran out of memory"));
  EXPECT_THAT(finding_text(a), Not(HasSubstr("two did not")));
}

TEST(Analysis, PublishedFiguresAreShownBesideMeasuredOnes) {
  auto report = three_rungs();
  report.experiment.parts[0].rungs[0].expect =
      Published{.speedup = 1.75, .memory = 0.7, .source = "a paper", .on = "A100-80GB, sequence 2048"};
  const Analysis a = analysis_of(report);
  ASSERT_TRUE(row(a, "one").published);
  EXPECT_EQ(row(a, "one").published->speedup, 1.75);
  EXPECT_FALSE(row(a, "one").published_here) << "the synthetic device is not an A100";
  EXPECT_FALSE(row(a, "two").published);
  const Section section = published_section(a);
  ASSERT_TRUE(section.table);
  ASSERT_EQ(section.table->rows.size(), 1U);
  EXPECT_THAT(section.table->rows[0], ::testing::Contains("(1.75x)"));
  EXPECT_THAT(section.table->rows[0], ::testing::Contains("(-30.0 %)"));
  EXPECT_FALSE(section.bullets.empty());
}

// Without bars, no sentence before it names the row of a comparison.
TEST(LadderTable, TextOfPeakMemoryNamesTheRowOfTheChange) {
  SyntheticReport report("two rounds", 2);
  report.ladder({rung("one", "fused_adamw"), rung("two", "flash_attention"), rung("three", "lora")});
  report["one"].status = "failed";
  EXPECT_THAT(
      ladder_sections(analysis_of(report)).front().bullets,
      Contains(HasSubstr("the change from the row above, or from the row that 'vs previous' names.")));
}

TEST(LadderTable, OnlyHeldOutDataAreSaidToBeUnreadByTraining) {
  auto report = three_rungs();
  report.experiment.base.validate.every = 1;
  const auto bullets = [&] { return ladder_sections(analysis_of(report)).front().bullets; };
  EXPECT_THAT(bullets(), Contains(HasSubstr("32 sequences that training never reads.")));
  report.experiment.base.validate.data = {.kind = "text", .path = "/other", .extensions = {}};
  EXPECT_THAT(bullets(), Contains(HasSubstr("32 sequences of the validation data.")));
}

TEST(LadderTable, PeakMemoryIsExplainedIfARowHasIt) {
  SyntheticReport report("base", 1);
  const auto bullets = [&] { return ladder_sections(analysis_of(report)).front().bullets; };
  EXPECT_THAT(bullets(), Contains("Peak memory is the most that tensors hold in the timed steps."));
  report["base"].status = "failed";
  EXPECT_THAT(bullets(), Not(Contains(HasSubstr("Peak memory"))));
}

TEST(Method, StatesWhetherEveryRungRanAllRounds) {
  auto report = test::three_rungs();
  EXPECT_THAT(method_section(analysis_of(report)).lead, HasSubstr("Each rung ran 3 times"));
  report["two"].status = "oom";
  EXPECT_THAT(method_section(analysis_of(report)).lead, HasSubstr("Each rung was planned to run 3 times"));
}

TEST(Method, InterleavedRungsAreComparedByStep) {
  Analysis a = analysis_of(test::three_rungs());
  const auto text = [&] { return join(method_section(a).bullets, "\n"); };
  EXPECT_THAT(text(), Not(HasSubstr("median of the ratios of the steps")));
  EXPECT_THAT(text(), Not(HasSubstr("first step of a turn")));
  a.rows.back().turns = {{"group", {}}};
  EXPECT_THAT(text(), HasSubstr("median of the ratios of the steps"));
  EXPECT_THAT(text(), HasSubstr("first step of a turn"));
}

TEST(Charts, CaptionNamesTheRoundOfTheSteps) {
  Analysis a = analysis_of(test::three_rungs());
  const auto caption = [&] { return loss_section(a, families_of(a).front()).caption; };
  EXPECT_THAT(caption(), HasSubstr("each rung's first round"));
  a.rows.back().shown_round = 1;
  EXPECT_THAT(caption(), HasSubstr("each rung's longest round"));
}

TEST(Grid, CaptionStatesHowRoundsAreCombined) {
  EXPECT_EQ(rounds_of_curves({.curves = {"step_time", "mfu"}}), "medians of all rounds");
  EXPECT_EQ(rounds_of_curves({.curves = {"step_time", "peak_memory", "loss"}}),
            "medians of all rounds (step), the largest of all rounds (peak memory), numbers of one round "
            "(training loss)");
}

TEST(LossSection, LeadCountsOnlyRungsThatExist) {
  auto report = test::three_rungs();
  for (const char* name : {"one", "two", "three"}) report[name].loss_error = 0.5;
  const Analysis a = analysis_of(report);
  EXPECT_EQ(loss_section(a, families_of(a).front()).lead, "Broken: one, two, three.");
}

TEST(Published, IsComparableOnTheSameKindOfDevice) {
  const Published published{.speedup = 2, .source = "x", .on = "A100-80GB, sequence 2048"};
  EXPECT_TRUE(published.comparable_with("NVIDIA A100-SXM4-80GB"));
  EXPECT_TRUE(published.comparable_with("NVIDIA A100 80GB PCIe"));
  EXPECT_FALSE(published.comparable_with("NVIDIA A100-SXM4-40GB"));
  EXPECT_FALSE(published.comparable_with("NVIDIA H200"));
  EXPECT_FALSE(published.comparable_with(""));
}

TEST(Analysis, FailedRunsAreRows) {
  auto report = three_rungs();
  report["one"] = {.status = "oom", .reason = "out of memory"};
  report["two"].status = "crashed";
  report["two"].reason = "SIGSEGV";
  report["two"].bad_round = 1;
  const Analysis a = analysis_of(report);
  EXPECT_EQ(row(a, "one").status, Status::oom);
  EXPECT_FALSE(row(a, "one").tokens_per_second);
  EXPECT_EQ(row(a, "two").status, Status::crashed) << "one of three rounds crashed";
  EXPECT_EQ(row(a, "two").reason, "round 2: SIGSEGV");
  EXPECT_EQ(row(a, "two").samples.size(), 2U);
  EXPECT_EQ(row(a, "three").previous.name, "base");
  EXPECT_EQ(row(a, "three").status, Status::ok);
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

// The machine is twice as fast in the first round. "one" lacks the last round, so its median is higher.
TEST(Analysis, AnotherProgramMeetsTheFastestRungOfTheSameRounds) {
  auto report = three_rungs();
  report["one"].tokens_per_second = 1500;
  report["one"].rounds = 2;
  report["two"].tokens_per_second = 1800;
  report["three"].tokens_per_second = 1000;
  Rung program = setting("program", Json::object());
  program.external = External{.command = {"train"}};
  report.experiment.parts[0].rungs.push_back(program);
  report["program"].tokens_per_second = 900;
  Stored stored = analysis_of(report);
  for (StoredRun& run : stored.runs)
    if (run.spec.purpose == Purpose::measure && run.spec.round == 0) *run.result.tokens_per_second *= 2;
  const Analysis a = analyze(std::move(stored));
  ASSERT_GT(row(a, "one").tokens_per_second, row(a, "two").tokens_per_second);
  ASSERT_EQ(a.programs.size(), 1U);
  EXPECT_EQ(a.row(a.programs[0].fastest)->name, "two");
}

TEST(Analysis, HeadlineNamesNoProgramThatIsNoFairPeer) {
  auto report = three_rungs();
  for (const auto& [name, fair] : {std::pair("plain", true), std::pair("dense", false)}) {
    Rung program = setting(name, Json::object());
    program.external = External{.command = {"train"}, .headline = fair};
    report.experiment.parts[0].rungs.push_back(program);
    report[name].tokens_per_second = fair ? 900 : 1700;
  }
  const Analysis a = analysis_of(report);
  EXPECT_EQ(a.row(a.programs[0].variant)->name, "dense") << "the section has it, and it is faster";
  for (const std::string& text : {headline(a), finding_text(a)}) {
    EXPECT_THAT(text, HasSubstr("as fast as plain"));
    EXPECT_THAT(text, Not(HasSubstr("as fast as dense")));
  }
}

TEST(Analysis, ZeroPeakHasNoPredictionError) {
  auto report = three_rungs();
  report["one"].peak_bytes = 0;
  const Analysis a = analysis_of(report);
  EXPECT_FALSE(row(a, "one").prediction_error);
  EXPECT_NEAR(row(a, "two").prediction_error.value_or(0), -0.1, 1e-6);
}

TEST(Analysis, SpeedAboveThePeakIsAnError) {
  auto report = three_rungs();
  report["two"].flops_per_token = 1e10;  // 1.8e13 of 1e13 FLOP/s
  const Analysis a = analysis_of(report);
  EXPECT_EQ(row(a, "two").status, Status::failed);
  EXPECT_THAT(row(a, "two").reason, HasSubstr("above 100 %"));
  EXPECT_NEAR(*row(a, "one").mfu, 0.15, 0.001);
  EXPECT_NEAR(*row(a, "one").mfu_causal, 0.135, 0.001);
  EXPECT_NEAR(*row(a, "one").hfu, 0.18, 0.001);
}

TEST(Analysis, SpeedAboveThePeakOfABusyMachineOmitsTheMfu) {
  auto report = three_rungs();
  report["two"].flops_per_token = 1e10;
  report.context["cpu"].update({{"threads", 2}, {"busy", 1.5}});
  const Analysis a = analysis_of(report);
  EXPECT_EQ(row(a, "two").status, Status::ok);
  EXPECT_FALSE(row(a, "two").mfu || row(a, "two").mfu_causal || row(a, "two").hfu);
  EXPECT_THAT(row(a, "two").warnings,
              ::testing::Contains(HasSubstr("above 100 %: other programs used the machine")));
  EXPECT_NEAR(*row(a, "one").mfu, 0.15, 0.001);
  report.context["cpu"]["busy"] = 0.1;
  report.context["probe_s"] = 0.02;
  EXPECT_THAT(row(analysis_of(report), "two").warnings,
              ::testing::Contains(HasSubstr("above 100 %: the peak was measured for less than a second")));
  report.context["probe_s"] = 12;
  EXPECT_EQ(row(analysis_of(report), "two").status, Status::failed);
  report.context["cpu"]["busy"] = 1.5;
  report.context["peak"]["source"] = "table";
  EXPECT_EQ(row(analysis_of(report), "two").status, Status::failed) << "the load changes no published peak";
}

/// Masking a prompt saves no work, so speed counts processed tokens, not trained tokens.
TEST(Analysis, SpeedAndUtilizationCountProcessedTokens) {
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

TEST(Analysis, PaddingIsNotAProcessedToken) {
  auto report = three_rungs();
  const double full = *row(analysis_of(report), "two").tokens_per_second;
  report["two"].padding = 0.25;
  const Analysis a = analysis_of(report);
  EXPECT_NEAR(*row(a, "two").tokens_per_second, 0.75 * full, 0.01);
  EXPECT_NEAR(*row(a, "two").padding, 0.25, 1e-9);
  EXPECT_TRUE(row(a, "two").pads());
  EXPECT_FALSE(row(a, "two").trains_on_fewer()) << "every token has a loss";
}

TEST(Analysis, ResumingARunDoesNotChangeItsPadding) {
  auto report = three_rungs();
  report["two"].padding = 0.25;
  Stored stored = analysis_of(report);
  for (StoredRun& run : stored.runs) {
    run.result.steps[3].timed = false;  // a warm-up step after a resumption
    run.result.steps[3].tokens /= 2;
  }
  const double all = 1 - 0.75 * (1 - 0.5 / static_cast<double>(stored.runs.front().result.steps.size()));
  EXPECT_NEAR(*row(analyze(std::move(stored)), "two").padding, all, 1e-3);
}

TEST(Analysis, BothTokenCountsAreShownIfTheyDiffer) {
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
  // The first table of the report has both columns as well.
  const Section first = ladder_sections(a).front();
  EXPECT_EQ(titles(first)[1] + ", " + titles(first)[2], "tokens/s, trained tokens/s");
  EXPECT_EQ(first.table->rows.at(2)[2], grouped(*row(a, "two").trained_tokens_per_second));
  EXPECT_EQ(first.table->bars.front().column, 3U);
  EXPECT_THAT(first.bullets, Contains(HasSubstr("trained tokens/s count tokens with a loss")));
  report["two"].trained = 1;
  report["two"].padding = 0;
  EXPECT_THAT(titles(ladder_sections(analysis_of(report)).front()), Not(Contains("trained tokens/s")));
}

TEST(Analysis, FlopsOfEachRoundBelongToItsSpeed) {
  const TemporaryFolder folder;
  three_rungs().write(folder.path());
  Stored stored = load_report(folder.path());
  // Rounds may time other steps: half the tokens/s with twice the FLOPs per token is the same work.
  for (StoredRun& run : stored.runs)
    if (run.spec.rung == "one" && run.spec.purpose == Purpose::measure && run.spec.round > 0) {
      *run.result.mfu_flops *= 2;
      *run.result.tokens_per_second /= 2;
    }
  EXPECT_NEAR(*row(analyze(stored), "one").mfu, *row(analysis_of(three_rungs()), "one").mfu, 1e-3);
}

TEST(Analysis, UnknownPeakGivesNoMfu) {
  auto report = three_rungs();
  report.context.erase("peak");
  EXPECT_FALSE(row(analysis_of(report), "one").mfu);
  EXPECT_TRUE(row(analysis_of(report), "one").model_flops_per_second);
}

TEST(Analysis, AnotherBatchIsReportedAsAnotherProblem) {
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

TEST(Analysis, InterruptedExperimentIsReportedUpToItsLastRun) {
  auto report = three_rungs();
  report["two"].rounds = 1;
  report["three"].rounds = 0;
  const Analysis a = analysis_of(report);
  EXPECT_EQ(a.missing_runs, 5U);
  EXPECT_THAT(missing_warning(a),
              HasSubstr("5 runs have no result yet: two, three. To finish: optrush run "));
  EXPECT_THAT(warnings_of(a), Contains(missing_warning(a)));
  EXPECT_THAT(headline(a), Not(HasSubstr("no result")));
  EXPECT_EQ(row(a, "two").status, Status::ok);
  EXPECT_THAT(row(a, "two").notes, Contains("1 of 3 rounds ran"));
  EXPECT_EQ(row(a, "two").previous.speed->rounds, 1U) << "paired by round";
  EXPECT_EQ(row(a, "three").status, Status::skipped);
  EXPECT_FALSE(a.any_failed()) << "missing runs are no failure";
}

TEST(Analysis, AnotherRowReplacesAFailedBase) {
  auto report = three_rungs();
  report["base"] = {.status = "oom", .reason = "out of memory"};
  const Analysis a = analysis_of(report);
  EXPECT_EQ(row(a, "three").base.name, "one");
  EXPECT_THAT(row(a, "three").notes, Contains(HasSubstr("'one' replaces it")));
  EXPECT_FALSE(row(a, "one").base.speed);
}

TEST(Analysis, ChangeOfTheLossNamesItsStep) {
  auto report = three_rungs();
  report.experiment.base.train.steps = 20;
  report.experiment.parts[0].rungs.push_back(setting("batch", {{"train", {{"micro_batch", 8}}}}));
  const Analysis a = analysis_of(report);
  EXPECT_EQ(row(a, "two").loss_change_at, 22);
  EXPECT_LT(row(a, "batch").loss_change_at, 22);
  const auto rows = loss_section(a, families_of(a).front()).table->rows;
  EXPECT_THAT(rows[4], Contains(HasSubstr("at step " + std::to_string(row(a, "batch").loss_change_at))));
  EXPECT_THAT(rows[2], Not(Contains(HasSubstr("at step"))));
}

TEST(Analysis, PriceAndEnergyOfATask) {
  auto report = three_rungs();
  report.experiment.price_per_hour = 3.6;
  const Analysis a = analysis_of(report);
  EXPECT_NEAR(*number_of(quantity("cost_per_million_tokens"), a, row(a, "base")), 1.0, 0.01);
  EXPECT_FALSE(number_of(quantity("joules_per_token"), a, row(a, "base")));
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
  EXPECT_THAT(finding_text(a),
              AllOf(HasSubstr("In the full stack bf16 (2.0"), HasSubstr("; bf16 gains most")));
}
}  // namespace
}  // namespace optrush
