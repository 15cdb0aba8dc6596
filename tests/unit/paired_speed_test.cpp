#include "analysis/analysis.h"

#include <gtest/gtest.h>

#include <cmath>

#include "analysis/analysis.h"

namespace optrush {
namespace {
StepResult step(int64_t number, bool timed, double seconds, int64_t tokens = 100) {
  StepResult result;
  result.step = number;
  result.timed = timed;
  result.seconds = seconds;
  result.tokens = tokens;
  return result;
}

/// A run's row with one round: `seconds` of the timed steps 3, 4, ...
Row row_of(const std::string& group, const std::vector<double>& seconds, double sample) {
  RunResult result;
  result.turns = group;
  result.steps.push_back(step(2, false, 99));
  for (size_t i = 0; i < seconds.size(); ++i)
    result.steps.push_back(step(3 + static_cast<int64_t>(i), true, seconds[i]));
  Row made;
  made.rounds = {0};
  made.samples = {sample};
  made.turns = {interleaved(result)};
  return made;
}

TEST(PairedSpeed, StepsOfOneGroupArePaired) {
  // The machine is slow in the middle for both runs. In each step one run is twice as fast.
  const Row fast = row_of("g", {1, 5, 5, 1}, 100), slow = row_of("g", {2, 10, 10, 2}, 10);
  EXPECT_DOUBLE_EQ(paired_speed(fast, slow)->value, 2);
  EXPECT_DOUBLE_EQ(paired_speed(slow, fast)->value, 0.5);
}

TEST(PairedSpeed, SingleDisturbedStepDoesNotCount) {
  EXPECT_DOUBLE_EQ(paired_speed(row_of("g", {1, 1, 1}, 1), row_of("g", {2, 2, 50}, 1))->value, 2);
  EXPECT_NEAR(paired_speed(row_of("g", {1, 1}, 1), row_of("g", {2, 8}, 1))->value, 4, 1e-12)
      << "interval of the logarithm";
}

TEST(PairedSpeed, StepsOfDocumentsCountByTheMeanOfTheirTokens) {
  RunResult packed, alone;
  packed.turns = alone.turns = "g";
  for (int64_t i = 0; i < 3; ++i) {
    packed.steps.push_back(step(i, true, 2, 90 + 10 * i));
    alone.steps.push_back(step(i, true, 2, i == 0 ? 130 : 10));
  }
  Row subject = row_of("g", {}, 1), reference = row_of("g", {}, 1);
  subject.turns = {interleaved(packed)};
  reference.turns = {interleaved(alone)};
  EXPECT_DOUBLE_EQ(paired_speed(subject, reference)->value, 2);
}

TEST(PairedSpeed, OnlyStepsTimedByBothCount) {
  Row a = row_of("g", {1, 1, 1}, 1), b = row_of("g", {2, 3, 3}, 1);
  std::erase_if(b.turns[0].speed, [](const auto& step) { return step.first == 3; });
  EXPECT_NEAR(paired_speed(a, b)->value, 3, 1e-12);
  EXPECT_TRUE(std::ranges::none_of(a.turns[0].speed, [](const auto& step) { return step.first == 2; }))
      << "the step was warm-up";
}

TEST(PairedSpeed, OtherGroupsArePairedByRound) {
  EXPECT_DOUBLE_EQ(paired_speed(row_of("g", {1}, 30), row_of("h", {2}, 10))->value, 3);
  EXPECT_DOUBLE_EQ(paired_speed(row_of("", {1}, 30), row_of("", {2}, 10))->value, 3) << "both ran alone";
  EXPECT_DOUBLE_EQ(paired_speed(row_of("g", {}, 30), row_of("g", {}, 10))->value, 3) << "no common step";
}

TEST(PairedSpeed, ARoundIsOneSample) {
  Row a = row_of("g", {1, 1, 1, 1}, 1), b = row_of("g", {2, 2, 2, 2}, 1);
  for (int64_t round = 1; round < 3; ++round) {
    const std::string group = "g" + std::to_string(round);
    const Row more_a = row_of(group, {1, 1}, 1),
              more_b = row_of(group, {2.0 + static_cast<double>(round), 3}, 1);
    for (auto [to, from] : {std::pair(&a, &more_a), std::pair(&b, &more_b)}) {
      to->rounds.push_back(round);
      to->samples.push_back(from->samples[0]);
      to->turns.push_back(from->turns[0]);
    }
  }
  const auto ratio = paired_speed(a, b);
  EXPECT_EQ(ratio->rounds, 3);
  ASSERT_TRUE(ratio->interval);
  EXPECT_NEAR(ratio->value, std::cbrt(2.0 * 3.0 * std::sqrt(4.0 * 3.0)), 1e-12);
}

TEST(PairedSpeed, ThreeInterleavedRoundsReplaceEarlierRounds) {
  Row a = row_of("", {1, 1}, 70), b = row_of("", {1, 1}, 10);  // in the first round one run was alone
  const auto add = [&](int64_t round) {
    const std::string group = "g" + std::to_string(round);
    for (auto [to, from] : {std::pair(&a, row_of(group, {1, 1}, 1)), {&b, row_of(group, {2, 2}, 1)}}) {
      to->rounds.push_back(round);
      to->samples.push_back(from.samples[0]);
      to->turns.push_back(from.turns[0]);
    }
  };
  add(1);
  add(2);
  EXPECT_EQ(paired_speed(a, b)->rounds, 3);
  EXPECT_NEAR(paired_speed(a, b)->value, std::cbrt(7.0 * 2 * 2), 1e-12);
  add(3);
  EXPECT_EQ(paired_speed(a, b)->rounds, 3);
  EXPECT_NEAR(paired_speed(a, b)->value, 2, 1e-12);
}
}  // namespace
}  // namespace optrush
