// The finding of a report: the sentences at its top.
#include <gmock/gmock.h>

#include "analysis/analysis.h"
#include "analysis/numbers/format.h"
#include "report/claims/claims.h"
#include "report/sections/document.h"
#include "report_fixture.h"

namespace optrush {
namespace {
using test::analysis_of;
using test::row;
using test::rung;
using test::setting;
using test::three_rungs;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Finding, LadderOfOtherTasksDoesNotClaimThatNothingHelps) {
  auto report = three_rungs();
  for (const char* name : {"one", "two", "three"}) report[name].tokens_per_second = 990;
  EXPECT_THAT(finding_text(analysis_of(report)), HasSubstr("No rung is shown to make training faster"));
  report.experiment.parts[0].rungs.insert(report.experiment.parts[0].rungs.begin(), rung("lora", "lora"));
  report["lora"].tokens_per_second = 1300;
  const std::string finding = finding_text(analysis_of(report));
  EXPECT_THAT(finding, Not(HasSubstr("o rung is shown")));
  EXPECT_THAT(finding, HasSubstr("lora trains 1.3"));
}

TEST(Finding, NamesTheReplacementOfAFailedBase) {
  auto report = three_rungs();
  report["base"] = {.status = "oom", .reason = "out of memory"};
  EXPECT_THAT(finding_text(analysis_of(report)), HasSubstr("as fast as one"));
}

TEST(Finding, RungIsNotRankedByAJointEffect) {
  auto report = three_rungs();
  report["two"] = {.status = "timeout", .reason = "no end"};
  report["three"] = {.tokens_per_second = 2400};
  report.experiment.parts[0].rungs[2].expect =
      Published{.speedup = 1.5, .memory = 0.5, .source = "somebody", .on = "a device"};
  const Analysis a = analysis_of(report);
  EXPECT_THAT(row(a, "three").previous.between, ElementsAre("two"));
  EXPECT_THAT(row(a, "two").previous.between, IsEmpty());
  EXPECT_THAT(finding_text(a), HasSubstr("one (1.5"));
  EXPECT_THAT(finding_text(a), HasSubstr("three, together with two, trains 1.60x [1.5"));
  EXPECT_THAT(finding_text(a), HasSubstr("as fast as one"));
  const Section published = published_section(a);
  ASSERT_TRUE(published.table);
  EXPECT_EQ(published.table->rows.at(0).at(1), kUnknown) << "the published figure is for another change";
}

TEST(Finding, LargestGainIsNamedOnlyIfItIsKnown) {
  auto report = three_rungs();
  Analysis a = analysis_of(report);
  EXPECT_THAT(finding_text(a), HasSubstr("one (1.5"));
  Row& two = a.rows[2];
  two.previous.speed->value = 3;
  two.previous.speed->interval = Interval{0.9, 10};
  EXPECT_THAT(finding_text(a), Not(HasSubstr("gains most")));
  auto ablation = test::ablation();
  a = analysis_of(ablation);
  EXPECT_THAT(finding_text(a), HasSubstr("bf16 gains most"));
  a.ablation.front().in_stack->interval = Interval{0.5, 9};
  EXPECT_THAT(finding_text(a), Not(HasSubstr("gains most")));
}

TEST(Finding, SingleTrainingReportsItsLoss) {
  test::SyntheticReport report("alone", 1);
  EXPECT_THAT(finding_text(analysis_of(report)), HasSubstr("base trains 1,0"));
  EXPECT_THAT(finding_text(analysis_of(report)), HasSubstr(" tokens/s to a training loss of 4.7"));
}

TEST(Finding, SearchReportsItsResult) {
  Analysis a = analysis_of(three_rungs());
  a.tried = Tried{.best = "flash",
                  .stages = {{"base", {{"flash", "+ flash", 1.4, 4, true, "1.39x [1.33, 1.45], faster"}}}}};
  EXPECT_EQ(findings(a).front(),
            "The search found flash; its time ended before it had "
            "tried every move, so a longer --at-most may find a faster stack.");
  a.tried->best = "base";
  a.tried->finished = true;
  TriedStack& flash = a.tried->stages[0].stacks[0];
  flash.faster = false;
  flash.speed = 0.98;
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
      "as fast as the base in 2 rounds; about 3 min more would allow a claim (--resume --at-most 4m).");
  flash.speed = 0.9;
  EXPECT_THAT(
      findings(a).front(),
      HasSubstr("fewer than 3 rounds; best so far: flash, 0.90x as fast as the base in 2 rounds; about"));
}

TEST(Finding, LadderWithAFailedTopIsNotCalledWhole) {
  auto report = three_rungs();
  report["three"] = {.status = "timeout", .reason = "no end"};
  EXPECT_THAT(finding_text(analysis_of(report)), HasSubstr("he stack up to two trains"));
  // Another part after the ladder changes nothing.
  report.experiment.parts.push_back(
      {Arrangement::grid, {}, {{setting("plain", Json::object()), rung("cast", "mixed_precision")}}});
  EXPECT_THAT(finding_text(analysis_of(report)), HasSubstr("he stack up to two trains"));
}

TEST(Finding, RefusedRungDoesNotSplitTheLadder) {
  auto report = three_rungs();
  report.refused = {"two"};
  report["two"] = {.status = "failed", .reason = "conflict"};
  report["one"] = {.tokens_per_second = 1200};
  report["three"] = {.tokens_per_second = 1100, .peak_bytes = 1 << 28};
  const std::string finding = finding_text(analysis_of(report));
  EXPECT_THAT(finding, HasSubstr("one trains 1,"));
  EXPECT_THAT(finding, HasSubstr("he stack up to three takes 256 MiB, 75 % less memory than the base"));
}

TEST(Finding, RatiosNearOneHaveEnoughDigits) {
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
  EXPECT_THAT(parts, Contains(HasSubstr("a (1.004x [1.002, 1.006]) makes training faster")));
  EXPECT_THAT(parts,
              Contains(HasSubstr("b (0.996x [0.994, 0.998], 50 % less memory) makes training slower")));
}

TEST(Analysis, FindingWithOneRowDoesNotMentionRounds) {
  auto report = three_rungs();
  for (const char* name : {"one", "two", "three"}) report[name].loss_error = 0.1;
  const Analysis a = analysis_of(report);
  EXPECT_THAT(finding_text(a), HasSubstr("Only base succeeded: base trains"));
  EXPECT_THAT(finding_text(a), Not(HasSubstr("fewer than")));
}

TEST(Analysis, ACombinationOfAnotherProblemIsNotTheFastest) {
  EXPECT_THAT(finding_text(analysis_of(test::grid())),
              ContainsRegex("s512 \\+ flash trains .*, the fastest combination with the base's problem"));
}

TEST(Analysis, NoCombinationIsCalledFastestIfAllAreSlower) {
  auto report = test::grid();
  report["s512 + flash"].tokens_per_second = 900;
  EXPECT_THAT(finding_text(analysis_of(report)),
              HasSubstr("No combination is shown to be faster than the base. s512 + flash trains 0.9"));
  report["s512 + flash"].tokens_per_second = 1001;
  EXPECT_THAT(finding_text(analysis_of(report)), HasSubstr("is shown to be faster than the base"));
}

TEST(Finding, NamesRungsWithoutDifferenceAndUndecidedOnes) {
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
  EXPECT_THAT(finding_text(a), HasSubstr("one (1.5"));
  EXPECT_THAT(finding_text(a), HasSubstr("batch trains 1.8"));
  EXPECT_THAT(finding_text(a),
              HasSubstr("as many tokens/s as three (not like for like: 8 instead of 4 sequences per step)"));
  report.experiment.rounds = 2;
  EXPECT_THAT(finding_text(analysis_of(report)), Not(HasSubstr("(batch)")))
      << "it is not named as the fastest median";
}

TEST(Finding, AnotherProblemWithoutAClaimIsStated) {
  auto report = three_rungs();
  report.experiment.parts[0].rungs.push_back(setting("batch", {{"train", {{"micro_batch", 8}}}}));
  const auto at = [&](double tokens_per_second) {
    report["batch"] = {.tokens_per_second = tokens_per_second};
    return analysis_of(report);
  };
  const Analysis a = at(*row(at(3000), "three").tokens_per_second);
  EXPECT_THAT(finding_text(a), ContainsRegex("batch trains 0.99.* as many tokens/s as three "
                                             "\\(not like for like: 8 instead of 4 sequences per step\\)"
                                             ", .*, no difference above"));
  EXPECT_THAT(headline(a), Not(HasSubstr("batch")));
}

/// The base, a program, and on top of it the same program with another argument.
SyntheticReport two_programs(const Json& settings) {
  SyntheticReport report("programs", 3);
  Rung mine = setting("mine", settings), fast = setting("mine fast", Json::object());
  mine.external = External{.command = {"train"}};
  fast.program = {{.rung = "mine fast", .args = {"--fast"}}};
  report.ladder({mine, fast});
  report["mine"].tokens_per_second = 3000;
  report["mine fast"].tokens_per_second = 3300;
  return report;
}

TEST(Finding, AProgramIsComparedWithTheOneBelow) {
  auto report = two_programs({{"model", {{"n_experts", 4}}}});
  const Analysis a = analysis_of(report);
  EXPECT_THAT(findings(a),
              ElementsAre(ContainsRegex("^mine trains [23].* as many tokens/s as the base \\(not like for "
                                        "like: another model\\)"),
                          ContainsRegex("^mine fast trains 1.1.* as fast as mine")));
  EXPECT_THAT(headline(a), ContainsRegex("mine fast trains 1.1[0-9]*x as fast as mine"));
  report["mine fast"] = {.tokens_per_second = 3100, .scatter = 0.2};
  EXPECT_THAT(finding_text(analysis_of(report)),
              ContainsRegex("as fast as mine, undecided; .* rounds would"));
  report.experiment.rounds = 2;
  EXPECT_THAT(headline(analysis_of(report)), HasSubstr("no claim on speed yet: a claim needs 3 rounds"));
}

TEST(Finding, AProgramOfTheBasesProblemIsAlsoComparedWithTheOneBelow) {
  const Analysis a = analysis_of(two_programs(Json::object()));
  EXPECT_THAT(finding_text(a), HasSubstr("as fast as mine fast"));
  EXPECT_THAT(finding_text(a), ContainsRegex("mine fast trains 1.1.* as fast as mine"));
}

TEST(Finding, AProgramThatNoHeadlineMayNameNeedsNoRounds) {
  SyntheticReport report("programs", 3);
  report.experiment.until = Until{.at_most_s = 60};
  Rung mine = setting("mine", Json::object()), other = setting("other", Json::object());
  mine.external = External{.command = {"train"}, .headline = false};
  other.external = External{.command = {"train"}};
  report.ladder({rung("one", "flash_attention"), mine, other});
  report["one"].tokens_per_second = 3000;
  for (const char* name : {"mine", "other"}) report[name].rounds = 2;
  const Analysis a = analysis_of(report);
  EXPECT_THAT(finding_text(a), HasSubstr("No claim on other ("));
  EXPECT_THAT(finding_text(a), Not(HasSubstr("mine"))) << "as with three rounds";
}

TEST(Finding, RoundsDoNotDecideOnTheSpeedOfALearningRate) {
  auto report = SyntheticReport("rates", 3);
  report.ladder(
      {setting("lr", {{"train", {{"lr", 1e-2}, {"weight_decay", 0.0}}}}), rung("two", "flash_attention")});
  for (const char* name : {"lr", "two"}) report[name] = {.tokens_per_second = 1020, .scatter = 0.2};
  const Analysis a = analysis_of(report);
  EXPECT_THAT(finding_text(a),
              ContainsRegex("lr \\([^()]*, the steps do equal work, and seeds = 3 compares the losses\\)"));
  EXPECT_THAT(finding_text(a), ContainsRegex("two \\([^()]* would (not )?decide it\\)"));
  report.experiment.seeds = {1, 2, 3};
  EXPECT_THAT(finding_text(analysis_of(report)), Not(HasSubstr("seeds = 3")));
}

TEST(Finding, WorseTrainingIsReported) {
  auto report = three_rungs();
  report.experiment.base.train.steps = 12;
  report.experiment.parts[0].rungs.push_back(
      setting("larger steps", {{"train", {{"lr", 0.1}}}}));  // another task, compared with its plain form
  report["larger steps"] = {.tokens_per_second = 3000, .loss_error = 0.1};
  report["larger steps"].has_extra_runs = false;
  const Analysis a = analysis_of(report);
  ASSERT_TRUE(row(a, "larger steps").ok()) << row(a, "larger steps").reason;
  ASSERT_TRUE(row(a, "larger steps").base.worse);
  EXPECT_THAT(finding_text(a), HasSubstr("larger steps trains worse than"));
  EXPECT_THAT(finding_text(a), HasSubstr("one (1.5"));
  report.experiment.rounds = 2;
  EXPECT_THAT(finding_text(analysis_of(report)), Not(HasSubstr("(larger steps)")));
}

TEST(Headline, AnswersWithTheDeviceTheFastestStackAndTheSmallestOne) {
  const std::string text = headline(analysis_of(three_rungs()));
  EXPECT_THAT(
      text, ContainsRegex("^On Synthetic device \\(2 cores\\), the stack up to two trains 1,[0-9]+ tokens/s "
                          "\\([0-9.]+ % MFU\\), 1.[78][0-9]x as fast as the base; the stack up to three "
                          "takes 512 MiB, 50 % less memory than the base, and trains 1.[56][0-9]x as fast"));
}

TEST(Headline, AsksFirstWhatAnotherModelCosts) {
  auto report = three_rungs();
  Rung experts = setting("experts", {{"model", {{"n_experts", 4}}}});
  experts.over = "base";
  auto& rungs = report.experiment.parts[0].rungs;
  rungs.insert(rungs.begin(), experts);
  rungs[1].over = "base";
  report["experts"] = {.tokens_per_second = 500, .peak_bytes = double{1LL << 31}};
  EXPECT_THAT(
      headline(analysis_of(report)),
      ContainsRegex("cores\\), experts trains 0.[45][0-9]*x as many tokens/s as the base \\(not like "
                    "for like: another model\\), with 100 % more memory; the stack up to two trains"));
}

TEST(Headline, CountsPublishedSpeedupsThatHold) {
  auto report = three_rungs();
  for (Rung& rung : report.experiment.parts[0].rungs)
    rung.expect = Published{.speedup = 1.1, .source = "somebody", .on = "a device"};
  EXPECT_THAT(headline(analysis_of(report)),
              ContainsRegex(
                  "of 3 published changes of speed 2 hold here: one \\(1.[45][0-9]x, published 1.10x\\), two "
                  "\\(1.[12][0-9]x, published 1.10x\\) and three \\(0.[89][0-9]+x, published 1.10x; not "
                  "shown\\)"));
}

TEST(Headline, ListsValidationLosses) {
  auto report = test::validated();
  report.experiment.target_loss = 0;
  EXPECT_THAT(
      headline(analysis_of(report)),
      ContainsRegex(
          "the validation loss ends at [0-9.]+ \\([a-zA-Z0-9 ]+\\), .* and [0-9.]+ \\(fused AdamW\\);"));
}

TEST(Headline, TellsWhatAChoiceOfAGridSaves) {
  const std::string text = headline(analysis_of(test::grid()));
  EXPECT_THAT(text, ContainsRegex("flash changes peak memory by -[0-9.]+ % to -[0-9.]+ % relative to plain"));
  EXPECT_THAT(text, Not(HasSubstr("s256 + flash takes"))) << "a shorter sequence is no saving";
}
}  // namespace
}  // namespace optrush
