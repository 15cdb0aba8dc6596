#include "report/quality.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace optrush {
namespace {
/// Losses that fall from 5 and scatter from batch to batch, the same way for the same seed.
std::vector<StepResult> curve(int64_t steps, int64_t tokens, double above = 0, unsigned seed = 1,
                              double scatter = 0.1) {
  std::mt19937 random(seed);
  std::normal_distribution noise(0.0, scatter);
  std::vector<StepResult> curve;
  for (int64_t i = 0; i < steps; ++i) {
    const double seen = static_cast<double>(i * tokens);
    curve.push_back(
        {.step = i, .loss = 4 + std::exp(-seen / 1000) + above + noise(random), .tokens = tokens});
  }
  return curve;
}

TEST(Quality, TheSameLossIsNotWorse) {
  EXPECT_FALSE(trains_worse(curve(12, 100), curve(12, 100)));
  EXPECT_FALSE(trains_worse(curve(12, 100, -0.5), curve(12, 100))) << "better is not worse";
}

TEST(Quality, WhatABatchAddsCancels) {
  const auto worse = trains_worse(curve(12, 100, 0.1), curve(12, 100));
  ASSERT_TRUE(worse);
  EXPECT_NEAR(worse->loss - worse->other, 0.1, 1e-9);
  EXPECT_FALSE(trains_worse(curve(12, 100, 0.02), curve(12, 100))) << "below 1 %";
}

TEST(Quality, OtherBatchesHaveToDifferByMoreThanTheyScatter) {
  EXPECT_FALSE(trains_worse(curve(12, 100, 0.1, 2), curve(12, 100)));
  EXPECT_TRUE(trains_worse(curve(12, 100, 1, 2), curve(12, 100)));
}

// Twice the batch after half as many steps has seen as much.
TEST(Quality, ComparesAfterEqualTokens) {
  EXPECT_FALSE(trains_worse(curve(12, 200, 0, 2, 0.01), curve(24, 100, 0, 1, 0.01)));
  EXPECT_TRUE(trains_worse(curve(12, 200, 0.2, 2, 0.01), curve(24, 100, 0, 1, 0.01)));
}

TEST(Quality, FewStepsShowNothing) { EXPECT_FALSE(trains_worse(curve(4, 100, 1), curve(4, 100))); }
}  // namespace
}  // namespace optrush
