// The gate in a report: broken rungs, and rungs without a comparison.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "analysis/analysis.h"
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
using ::testing::Each;
using ::testing::HasSubstr;

TEST(Analysis, BrokenRungMakesNoClaimAndIsNeverAReference) {
  auto report = three_rungs();
  report["one"].loss_error = 0.01;  // its effect is `rounding`
  const Analysis a = analysis_of(report);
  EXPECT_EQ(row(a, "one").status, Status::broken);
  EXPECT_THAT(row(a, "one").reason, HasSubstr("losses differ by up to 1 % (step 3)"));
  EXPECT_FALSE(row(a, "one").previous.speed);
  EXPECT_TRUE(row(a, "one").tokens_per_second) << "its measurement is kept";
  EXPECT_EQ(row(a, "two").previous.name, "base");
  EXPECT_EQ(row(a, "two").status, Status::ok);
  EXPECT_TRUE(a.any_failed());
  EXPECT_THAT(finding_text(a), HasSubstr("one broke the correctness gate"));
}

TEST(Analysis, LossesHaveADistanceFromTheirReference) {
  auto report = three_rungs();
  report["one"].loss_error = 0.01;
  const Analysis a = analysis_of(report);
  const auto& one = row(a, "one").losses_apart;
  ASSERT_EQ(one.size(), row(a, "one").steps.size());
  EXPECT_NEAR(*std::ranges::max_element(one), row(a, "one").verdict.loss.worst, 1e-12);
  EXPECT_THAT(row(a, "three").losses_apart, Each(0.0));
  EXPECT_TRUE(row(a, "base").losses_apart.empty()) << "it has no reference";
}

TEST(Analysis, AnotherBatchDoesNotCureABrokenRung) {
  auto report = three_rungs();
  report.experiment.parts[0].rungs.push_back(setting("batch", {{"train", {{"micro_batch", 8}}}}));
  report["three"].loss_error = 0.1;
  report["batch"].has_extra_runs = report["twice"].has_extra_runs = false;
  const Analysis a = analysis_of(report);
  EXPECT_EQ(row(a, "three").status, Status::broken);
  EXPECT_EQ(row(a, "batch").status, Status::broken);
  EXPECT_THAT(row(a, "batch").reason, HasSubstr("builds on 'three'"));
}

TEST(Analysis, RemovingTheBrokenPluginCuresARung) {
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

TEST(Analysis, ExactRungsMustHaveEqualBits) {
  auto report = three_rungs();
  report["three"].loss_error = 1e-12;
  EXPECT_EQ(row(analysis_of(report), "three").status, Status::broken);
  report["two"].reproducible = false;
  EXPECT_EQ(row(analysis_of(report), "three").status, Status::ok) << "the machine does not reproduce bits";
}

TEST(Analysis, RepeatOfTheReferenceDecidesAfterOneRound) {
  auto report = three_rungs();
  report.experiment.rounds = 1;
  report["three"].loss_error = 1e-12;
  EXPECT_EQ(row(analysis_of(report), "three").status, Status::broken) << "the reference repeats its bits";
  report["two"].reproducible = false;
  const Analysis elsewhere = analysis_of(report);
  EXPECT_EQ(row(elsewhere, "three").status, Status::ok) << "the reference does not repeat its bits";
  EXPECT_TRUE(row(elsewhere, "three").checked);
  report["three"].has_extra_runs = false;
  const Analysis open = analysis_of(report);
  EXPECT_EQ(row(open, "three").status, Status::ok);
  EXPECT_FALSE(row(open, "three").checked) << "the repeat did not run";
}

TEST(Analysis, AWrongGradientScaleIsBroken) {
  auto report = three_rungs();
  report["one"].norm_factor = 2;  // a sum instead of a mean, which does not change AdamW's losses
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
  EXPECT_EQ(row(analysis_of(report), "program").status, Status::broken) << "reported norms are compared";
  report["program"].grad_norm = std::nan("");
  report["program"].loss_error = 0.1;
  EXPECT_EQ(row(analysis_of(report), "program").status, Status::broken);
}

TEST(Analysis, RungsWithoutAComparisonAreNotChecked) {
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

TEST(Analysis, RungWithoutAGradientFails) {
  for (const double norm : {0.0, std::nan("")}) {
    auto report = three_rungs();
    report["one"].grad_norm = norm;
    const Analysis a = analysis_of(report);
    EXPECT_EQ(row(a, "one").status, Status::failed);
    EXPECT_THAT(row(a, "one").reason, HasSubstr("gradient norm"));
  }
}

TEST(Analysis, AProbeJudgesAccumulation) {
  auto report = three_rungs();
  report.experiment.parts[0].rungs.push_back(rung("accumulate", "gradient_accumulation", {{"steps", 4}}));
  report["accumulate"].loss_error = 0.04;  // at its own batch, which the gate does not compare
  EXPECT_EQ(row(analysis_of(report), "accumulate").status, Status::ok);
  report["accumulate"].probe_loss_error = 0.01;
  EXPECT_EQ(row(analysis_of(report), "accumulate").status, Status::broken);
}

TEST(Analysis, ARowThatFreezesParametersDoesNotTrainWorse) {
  for (const bool frozen : {false, true}) {
    auto report = three_rungs();
    report.experiment.base.train.steps = 12;
    report.experiment.parts[0].rungs.push_back(rung("lora", "lora", {{"frozen", frozen}}));
    report["lora"] = {.loss_error = 0.1, .has_extra_runs = false};
    const Analysis a = analysis_of(report);
    const Row& lora = row(a, "lora");
    ASSERT_TRUE(lora.ok()) << lora.reason;
    EXPECT_EQ(lora.previous.differs, frozen ? "other trained parameters" : "another function or task");
    EXPECT_EQ(lora.previous.worse.has_value(), !frozen);
    EXPECT_EQ(lora.base.worse.has_value(), !frozen);
  }
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
  EXPECT_EQ(row(analysis_of(report), "lora").status, Status::ok) << "6 steps are too few to show a fall";
  report.experiment.base.train.steps = 10;
  EXPECT_EQ(row(analysis_of(report), "lora").status, Status::broken);
}

TEST(Analysis, MissingComparisonIsReported) {
  auto report = three_rungs();
  report.experiment.parts[0].rungs.push_back(rung("lora", "lora"));
  report["lora"].has_extra_runs = false;
  const Analysis a = analysis_of(report);
  EXPECT_EQ(row(a, "lora").status, Status::ok);
  EXPECT_FALSE(row(a, "lora").checked);
  EXPECT_THAT(row(a, "lora").notes, Contains(HasSubstr("its reference did not run")));
}

TEST(Analysis, LossIsComparedWithANamedRung) {
  auto report = three_rungs();
  report.experiment.parts[0].rungs.push_back(setting("batch", {{"train", {{"micro_batch", 8}}}}));
  report["two"].loss_error = 0.1;
  const Analysis a = analysis_of(report);
  EXPECT_EQ(row(a, "three").loss_against, "one") << "the row before is broken";
  EXPECT_EQ(row(a, "batch").loss_against, "its reference run");
  EXPECT_THAT(loss_section(a, families_of(a).front()).table->rows[3], Contains(HasSubstr("from one")));
}
}  // namespace
}  // namespace optrush
