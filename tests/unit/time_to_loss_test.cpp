// How long a run trains until its loss is at a target.
#include "report/time_to_loss.h"

#include <gtest/gtest.h>

namespace optrush {
namespace {
/// Steps of two seconds with these losses; the first one is warm-up.
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

TEST(TimeToLoss, IsOfTheStepsBeforeTheFirstValidationThatIsThere) {
  const RunResult run = run_of({9, 1, 1, 1, 1, 1}, {{2, 4.0}, {4, 3.0}, {6, 2.9}});
  EXPECT_EQ(time_to_loss(run, 3.0)->seconds, 8);
  EXPECT_TRUE(time_to_loss(run, 3.0)->validated);
  EXPECT_EQ(time_to_loss(run, 4.5)->seconds, 4);
  EXPECT_FALSE(time_to_loss(run, 2.0)->seconds);
}

TEST(TimeToLoss, WithoutValidationTheMeanOfTenStepsCounts) {
  std::vector<double> losses(20, 4);
  losses[3] = 0.1;  // one lucky step does not reach it
  for (size_t i = 10; i < losses.size(); ++i) losses[i] = 2;
  const RunResult run = run_of(losses);
  EXPECT_FALSE(time_to_loss(run, 2.0)->validated);
  EXPECT_EQ(time_to_loss(run, 2.0)->seconds, 40);
  EXPECT_EQ(time_to_loss(run, 3.0)->seconds, 30);  // five of four, five of two
  EXPECT_FALSE(time_to_loss(run, 1.9)->seconds);
  EXPECT_FALSE(time_to_loss(run_of({1, 1, 1}), 3.0)->seconds);  // fewer steps than it takes
}

TEST(TimeToLoss, RoundsGiveTheirMedianWhereAllOfThemAreThere) {
  const RunResult fast = run_of({9, 9, 9, 9}, {{2, 3.0}, {4, 3.0}}),
                  slow = run_of({9, 9, 9, 9}, {{2, 5}, {4, 3.0}}), never = run_of({9, 9, 9, 9}, {{4, 5}});
  EXPECT_EQ(time_to_loss({&fast, &slow}, 3.0)->seconds, 6);
  EXPECT_FALSE(time_to_loss({&fast, &never}, 3.0)->seconds);
  EXPECT_TRUE(time_to_loss({&fast, &never}, 3.0)->validated);
}

TEST(TimeToLoss, WhatHasNoLossesHasNone) {
  const RunResult nothing;
  EXPECT_FALSE(time_to_loss(nothing, 3.0));
  EXPECT_FALSE(time_to_loss({&nothing}, 3.0));
  EXPECT_FALSE(time_to_loss(std::vector<const RunResult*>(), 3.0));
}
}  // namespace
}  // namespace optrush
