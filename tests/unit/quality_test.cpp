#include "analysis/quality.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace optrush {
namespace {
/// Losses that fall from 5 with noise between batches. Equal seeds give equal noise.
std::vector<StepResult> curve(int64_t steps, int64_t tokens, double above = 0, unsigned seed = 1,
                              double scatter = 0.1) {
  std::mt19937 random(seed);
  std::normal_distribution noise(0.0, scatter);
  std::vector<StepResult> curve;
  for (int64_t i = 0; i < steps; ++i) {
    const double seen = static_cast<double>(i * tokens);
    curve.push_back(
        {.step = i, .loss = 4 + std::exp(-seen / 1000) + above + noise(random), .trained = tokens});
  }
  return curve;
}

std::optional<Worse> worse(const std::vector<StepResult>& subject, const std::vector<StepResult>& reference,
                           const std::vector<ValidationPoint>& validated = {},
                           const std::vector<ValidationPoint>& other = {}) {
  return trains_worse({subject, validated}, {reference, other});
}

TEST(Quality, TheSameLossIsNotWorse) {
  EXPECT_FALSE(worse(curve(12, 100), curve(12, 100)));
  EXPECT_FALSE(worse(curve(12, 100, -0.5), curve(12, 100))) << "a lower loss is not worse";
}

TEST(Quality, EffectOfABatchCancels) {
  const auto found = worse(curve(12, 100, 0.1), curve(12, 100));
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->loss - found->other, 0.1, 1e-9);
  EXPECT_FALSE(worse(curve(12, 100, 0.02), curve(12, 100))) << "the difference is below 1 %";
}

TEST(Quality, OtherBatchesMustDifferByMoreThanTheirScatter) {
  EXPECT_FALSE(worse(curve(12, 100, 0.1, 2), curve(12, 100)));
  EXPECT_TRUE(worse(curve(12, 100, 1, 2), curve(12, 100)));
}

// With twice the batch, half as many steps process the same number of tokens.
TEST(Quality, ComparesAfterEqualTokens) {
  EXPECT_FALSE(worse(curve(12, 200, 0, 2, 0.01), curve(24, 100, 0, 1, 0.01)));
  EXPECT_TRUE(worse(curve(12, 200, 0.2, 2, 0.01), curve(24, 100, 0, 1, 0.01)));
}

TEST(Quality, FewStepsShowNothing) { EXPECT_FALSE(worse(curve(4, 100, 1), curve(4, 100))); }

// A rung that overfits has the lower training loss.
TEST(Quality, ValidationsDecideIfBothHaveThem) {
  const std::vector<ValidationPoint> low = {{.step = 6, .loss = 3}, {.step = 12, .loss = 4}};
  const std::vector<ValidationPoint> high = {{.step = 6, .loss = 3}, {.step = 12, .loss = 4.1}};
  const auto found = worse(curve(12, 100, -1), curve(12, 100), high, low);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->validated);
  EXPECT_EQ(found->loss, 4.1);
  EXPECT_EQ(found->other, 4) << "the point at half of the tokens is not in the last third";
  EXPECT_FALSE(worse(curve(12, 100, 1), curve(12, 100), low, high)) << "the training loss is not used";
  EXPECT_FALSE(worse(curve(12, 100, 1), curve(12, 100), low, low));
}

TEST(Quality, ValidationsOfOnlyOneRunDecideNothing) {
  const auto found = worse(curve(12, 100, 1), curve(12, 100), {{.step = 12, .loss = 1}});
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->validated);
  EXPECT_TRUE(worse(curve(12, 100, 1), curve(12, 100), {{.step = 2, .loss = 1}}, {{.step = 2, .loss = 1}}))
      << "no validation is in the last third";
}

// A packed run has processed as many tokens after a few steps, before its first validation.
TEST(Quality, RunThatIsValidatedLaterIsNotJudgedByItsFirstBatches) {
  const std::vector<ValidationPoint> at_end = {{.step = 24, .loss = 4.1}};
  ASSERT_TRUE(worse(curve(24, 200, 1), curve(24, 100)));
  EXPECT_FALSE(worse(curve(24, 200, 1), curve(24, 100), at_end, at_end));
  EXPECT_TRUE(worse(curve(24, 200, 1), curve(24, 100), at_end)) << "one validation alone decides nothing";
}

// Losses fall, so each is compared with the other's loss after as many tokens.
TEST(Quality, ValidationsAfterOtherTokensAreComparedAlongTheLine) {
  std::vector<ValidationPoint> often, seldom = {{.step = 6, .loss = 5}, {.step = 12, .loss = 4}};
  for (int64_t step = 1; step <= 12; ++step)
    often.push_back({.step = step, .loss = 6 - static_cast<double>(step) / 6});
  EXPECT_FALSE(worse(curve(12, 100), curve(12, 100), often, seldom));
  EXPECT_FALSE(worse(curve(12, 100), curve(12, 100), seldom, often));
  for (auto& point : often) point.loss += 0.1;
  EXPECT_TRUE(worse(curve(12, 100), curve(12, 100), often, seldom));
}

// With twice the batch, validations come after other numbers of steps, but after the same number of tokens.
TEST(Quality, ValidationsAreOfEqualTokens) {
  const std::vector<ValidationPoint> half = {{.step = 6, .loss = 4}}, whole = {{.step = 12, .loss = 3}};
  EXPECT_TRUE(worse(curve(6, 200), curve(12, 100), half, whole));
  EXPECT_FALSE(worse(curve(12, 200), curve(12, 100), {{.step = 12, .loss = 9}}, whole))
      << "this run has twice the tokens";
}
}  // namespace
}  // namespace optrush
