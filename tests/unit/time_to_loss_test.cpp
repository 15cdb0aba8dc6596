// The time that a run trains until its loss reaches a target.
#include "analysis/time_to_loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "analysis/analysis.h"
#include "base/text.h"
#include "report/claims/claims.h"
#include "report_fixture.h"

namespace optrush {
namespace {
using ::testing::HasSubstr;
using ::testing::Not;

/// Steps of two seconds with these losses. The first step is warm-up.
RunResult run_of(const std::vector<double>& losses, const std::vector<ValidationPoint>& validation = {}) {
  RunResult run;
  for (size_t i = 0; i < losses.size(); ++i) {
    StepResult step;
    step.step = static_cast<int64_t>(i);
    step.timed = i > 0;
    step.loss = losses[i];
    step.seconds = 2;
    run.steps.push_back(step);
  }
  run.validation = validation;
  return run;
}

TEST(TimeToLoss, CountsStepsUntilTheFirstValidationAtTheLoss) {
  const RunResult run = run_of({9, 1, 1, 1, 1, 1}, {{2, 4.0}, {4, 3.0}, {6, 2.9}});
  EXPECT_EQ(time_to_loss(run, 3.0)->seconds, 8);
  EXPECT_EQ(time_to_loss(run, 3.0)->steps, 4);
  EXPECT_TRUE(time_to_loss(run, 3.0)->validated);
  EXPECT_EQ(time_to_loss(run, 4.5)->seconds, 4);
  EXPECT_FALSE(time_to_loss(run, 2.0)->seconds);
}

TEST(TimeToLoss, MeanOfTenStepsCountsWithoutValidation) {
  std::vector<double> losses(20, 4);
  losses[3] = 0.1;  // a single low loss does not count
  for (size_t i = 10; i < losses.size(); ++i) losses[i] = 2;
  const RunResult run = run_of(losses);
  EXPECT_FALSE(time_to_loss(run, 2.0)->validated);
  EXPECT_EQ(time_to_loss(run, 2.0)->seconds, 40);
  EXPECT_EQ(time_to_loss(run, 2.0)->steps, 20);
  EXPECT_EQ(time_to_loss(run, 3.0)->seconds, 30);  // the mean of five fours and five twos
  EXPECT_FALSE(time_to_loss(run, 1.9)->seconds);
  EXPECT_FALSE(time_to_loss(run_of({1, 1, 1}), 3.0)->seconds);  // too few steps for the mean
}

TEST(LossesByTime, HasALossForEveryValidationOrStep) {
  const RunResult validated = run_of({9, 8, 7, 6, 5, 4}, {{2, 4.0}, {6, 3.0}});
  const auto points = losses_by_time(validated.steps, validated.validation);
  ASSERT_EQ(points.size(), 2);
  EXPECT_EQ(points[0].steps, 2);
  EXPECT_EQ(points[0].seconds, 4);
  EXPECT_EQ(points[1].seconds, 12);
  EXPECT_EQ(points[1].loss, 3.0);
  const RunResult plain = run_of(std::vector<double>(12, 5));
  const auto smoothed = losses_by_time(plain.steps, {});
  ASSERT_EQ(smoothed.size(), 3) << "after 10, 11 and 12 steps";
  EXPECT_EQ(smoothed[0].seconds, 20);
  EXPECT_EQ(smoothed[0].loss, 5);
}

TEST(LossesByTime, AreInterpolatedLinearly) {
  const std::vector<TimedLoss> losses = {{1, 10, 4}, {2, 20, 3}, {3, 40, 1}};
  const auto loss_at = [](const std::vector<TimedLoss>& all, double seconds) {
    return loss_between(all, seconds, &TimedLoss::seconds);
  };
  EXPECT_EQ(loss_at(losses, 10), 4);
  EXPECT_EQ(loss_at(losses, 15), 3.5);
  EXPECT_EQ(loss_at(losses, 30), 2);
  EXPECT_EQ(loss_at(losses, 40), 1);
  EXPECT_FALSE(loss_at(losses, 9));
  EXPECT_FALSE(loss_at(losses, 41));
  EXPECT_FALSE(loss_at({}, 1));
}

std::optional<TimeToLoss> over_rounds(const std::vector<const RunResult*>& runs, double target) {
  std::vector<RoundEnd> rounds;
  for (const RunResult* run : runs) rounds.push_back(end_of({.id = "", .spec = {}, .result = *run}, target));
  return time_to_loss(rounds);
}

TEST(TimeToLoss, MedianNeedsEveryRoundToReachTheLoss) {
  const RunResult fast = run_of({9, 9, 9, 9}, {{2, 3.0}, {4, 3.0}}),
                  slow = run_of({9, 9, 9, 9}, {{2, 5}, {4, 3.0}}), never = run_of({9, 9, 9, 9}, {{4, 5}});
  EXPECT_EQ(over_rounds({&fast, &slow}, 3.0)->seconds, 6);
  EXPECT_EQ(over_rounds({&fast, &slow}, 3.0)->steps, 4);
  EXPECT_FALSE(over_rounds({&fast, &never}, 3.0)->seconds);
  EXPECT_TRUE(over_rounds({&fast, &never}, 3.0)->validated);
}

/// A report with rows that reach the target after these seconds and steps. 0 means never.
Analysis report_reaching(const std::vector<std::pair<double, int64_t>>& needs) {
  Analysis a;
  a.experiment.target_loss = 2.5;
  for (const auto& [seconds, steps] : needs) {
    Row row;
    row.variant = static_cast<int64_t>(a.rows.size());
    row.name = row.variant == 0 ? "base" : "rung " + std::to_string(row.variant);
    row.status = Status::ok;
    row.rounds.resize(3);
    row.time_to_loss = TimeToLoss{.validated = true, .last = 2.7 + 0.1 * static_cast<double>(row.variant)};
    if (steps > 0)
      row.time_to_loss = TimeToLoss{.seconds = seconds, .steps = steps, .validated = true, .last = 2.4};
    a.rows.push_back(row);
    a.variants.emplace_back();
  }
  return a;
}

std::string finding(const Analysis& a) { return join(findings(a), " "); }

TEST(TimeToLoss, TheFindingListsRungsByTime) {
  EXPECT_EQ(finding(report_reaching({{20, 100}, {12, 80}, {30, 90}})),
            "rung 1 (12.0 s, 80 steps), base (20.0 s, 100 steps) and rung 2 (30.0 s, 90 steps) reach a "
            "validation loss of 2.5.");
  // As many steps in less time: the claims on speed say it.
  EXPECT_THAT(finding(report_reaching({{20, 100}, {12, 100}})), Not(HasSubstr("reach")));
}

TEST(TimeToLoss, TheFindingNamesRungsThatDoNotReachTheLoss) {
  EXPECT_EQ(finding(report_reaching({{20, 100}, {12, 80}, {0, 0}, {0, 0}})),
            "rung 1 (12.0 s, 80 steps) and base (20.0 s, 100 steps) reach a validation loss of 2.5; not in "
            "every round: "
            "rung 2 (2.900) and rung 3 (3.000).");
  EXPECT_EQ(finding(report_reaching({{0, 0}, {12, 80}})),
            "rung 1 (12.0 s, 80 steps) reaches a validation loss of 2.5; not in every round: base (2.700).");
  EXPECT_EQ(finding(report_reaching({{0, 0}, {0, 0}})),
            "No rung reaches a validation loss of 2.5; the last validation losses are base (2.700) and rung "
            "1 (2.800).");
}

/// The headline of a report, here of `validated()`: base, bf16 autocast (twice as fast), fused AdamW (misses
/// the loss).
std::string headline_of(const test::SyntheticReport& report) { return headline(test::analysis_of(report)); }

TEST(TimeToLoss, TheHeadlineDoesNotPraiseAStackThatMissesTheLoss) {
  const std::string misses = headline_of(test::validated());
  EXPECT_THAT(misses, HasSubstr("reach a validation loss of 4.84; not in every round: fused AdamW (4.848)"));
  EXPECT_THAT(misses, HasSubstr("bf16 autocast trains 1,994 tokens/s"));
  EXPECT_THAT(misses, HasSubstr("2.00x as fast as the base, with 20 % less memory"));
  EXPECT_THAT(misses, Not(HasSubstr("the stack up to fused AdamW")));
  // If no rung reaches the loss, speeds are comparable.
  auto none = test::validated();
  none.experiment.target_loss = 1;
  EXPECT_THAT(headline_of(none), HasSubstr("no rung reaches a validation loss of 1"));
  EXPECT_THAT(headline_of(none), HasSubstr("2.00x as fast"));
}

TEST(TimeToLoss, AFastRungThatMissesTheLossIsNoGain) {
  auto report = test::validated();
  report["fused AdamW"].tokens_per_second = 3000;
  const Analysis a = test::analysis_of(report);
  ASSERT_TRUE(misses_loss(a, a.rows[2]));
  EXPECT_THAT(headline(a), HasSubstr("2.00x as fast"));
  EXPECT_THAT(headline(a), Not(HasSubstr("3.00x")));
  EXPECT_EQ(result_row(a), &a.rows[1]) << "the badge shows the stack that reaches the loss";
}

TEST(TimeToLoss, TheFindingNamesWhatIsUndecided) {
  Analysis a = report_reaching({{0, 0}, {0, 0}});
  for (Row& row : a.rows) row.time_to_loss->enough_steps = false;
  EXPECT_EQ(finding(a),
            "The runs are too short to show whether a rung reaches a validation loss of 2.5: the test is the "
            "mean of 10 "
            "training losses, and they have fewer steps.");
  a = report_reaching({{0, 0}, {0, 0}});
  a.rows[0].time_to_loss->in_some_rounds = true;
  a.rows[0].time_to_loss->last = 2.4;
  EXPECT_THAT(finding(a), HasSubstr("No rung reaches a validation loss of 2.5 in every round; the last "
                                    "validation losses are base (2.400)"));
  a = report_reaching({{20, 100}, {12, 80}});
  a.rows[0].time_to_loss.reset();
  a.rows[0].status = Status::timeout;
  EXPECT_THAT(finding(a), Not(HasSubstr("first"))) << "one rung alone has no comparison";
}

TEST(TimeToLoss, TooFewStepsAreUndecided) {
  const RunResult few = run_of({9, 9, 9}, {}), there = run_of({9, 9, 9, 9}, {{4, 3.0}}),
                  not_there = run_of({9, 9, 9, 9}, {{4, 5}});
  EXPECT_FALSE(over_rounds({&few}, 9.5)->enough_steps);
  EXPECT_EQ(text_of(over_rounds({&few}, 9.5)), "too few steps to tell");
  EXPECT_TRUE(over_rounds({&there, &not_there}, 3.0)->in_some_rounds);
  EXPECT_EQ(text_of(over_rounds({&there, &not_there}, 3.0)), "not in every round");
  EXPECT_FALSE(over_rounds({&not_there}, 3.0)->in_some_rounds);
}

TEST(TimeToLoss, TheFindingComparesOnlyLossesOfOneKind) {
  // Another kind of loss, another task, and the same run are not compared.
  Analysis a = report_reaching({{20, 100}, {12, 80}});
  a.rows[1].time_to_loss->validated = false;
  EXPECT_THAT(finding(a), Not(HasSubstr("rung 1 (")));
  a = report_reaching({{20, 100}, {12, 80}});
  a.variants[1].spec.train.seq_len = 7;
  EXPECT_THAT(finding(a), Not(HasSubstr("rung 1 (")));
  a = report_reaching({{20, 100}, {12, 80}});
  a.rows[1].same_as = 0;
  EXPECT_THAT(finding(a), Not(HasSubstr("rung 1 (")));
}

/// A row whose rounds reach the loss after these seconds (0: never), and end at these losses. Round i has
/// seed i.
Row row_with(const std::vector<double>& seconds, const std::vector<double>& losses) {
  Row row;
  for (size_t i = 0; i < seconds.size(); ++i) {
    const auto number = static_cast<int64_t>(i);
    RoundEnd end{.round = number, .seed = i, .trained = 100, .last = losses[i], .validated = true};
    end.time = TimeToLoss{.validated = true};
    if (seconds[i] > 0) end.time->seconds = seconds[i];
    row.ends.push_back(end);
  }
  return row;
}

TEST(PairedOverSeeds, TimesAreComparedWithinARound) {
  const Row base = row_with({10, 40, 20}, {3, 3.2, 3.1}), sooner = row_with({8, 32, 16}, {3, 3, 3});
  const Ratio ratio = paired_time_to_loss(sooner, base).value();
  EXPECT_NEAR(ratio.value, 1.25, 1e-12);
  ASSERT_TRUE(ratio.interval.has_value());
  EXPECT_GT(ratio.interval->low, 1.24) << "seeds differ more than rungs, and cancel";
  EXPECT_FALSE(paired_time_to_loss(row_with({8, 0, 16}, {3, 3, 3}), base))
      << "a round does not reach the loss";
  EXPECT_EQ(paired_time_to_loss(row_with({5}, {3}), base)->rounds, 1) << "only rounds that both have";
}

TEST(PairedOverSeeds, LossesAreComparedAfterEqualTokens) {
  const Row base = row_with({1, 1, 1}, {3.0, 3.5, 4.0}), better = row_with({1, 1, 1}, {2.9, 3.4, 3.9});
  const Ratio ratio = paired_perplexity(better, base).value();
  EXPECT_NEAR(std::log(ratio.value), -0.1, 1e-12);
  EXPECT_TRUE(ratio.claim());
  Row shorter = better;
  shorter.ends[1].trained = 90;
  EXPECT_FALSE(paired_perplexity(shorter, base));
  Row one_seed = better, base_of_one = base;
  for (size_t i = 0; i < 3; ++i) one_seed.ends[i].seed = base_of_one.ends[i].seed = 1;
  EXPECT_FALSE(paired_perplexity(one_seed, base_of_one)) << "rounds of one seed show no scatter of losses";
  EXPECT_TRUE(paired_time_to_loss(one_seed, base_of_one)) << "but their times scatter";
}

TEST(PairedOverSeeds, TheFindingStatesTheExchange) {
  Analysis a = report_reaching({{20, 100}, {16, 80}});
  a.rows[1].base = {.variant = 0, .name = "base", .time_to_loss = ratio_of_logs({0.22, 0.223, 0.226})};
  EXPECT_THAT(finding(a),
              HasSubstr("rung 1 reaches a validation loss of 2.5 1.25x [1.24, 1.26] as soon as the base"));
}

TEST(TimeToLoss, RunWithoutLossesHasNone) {
  const RunResult nothing;
  EXPECT_FALSE(time_to_loss(nothing, 3.0));
  EXPECT_FALSE(over_rounds({&nothing}, 3.0));
  EXPECT_FALSE(over_rounds({}, 3.0));
}
}  // namespace
}  // namespace optrush
