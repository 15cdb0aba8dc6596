#include "analysis/numbers/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "analysis/numbers/verdict.h"
#include "optrush/error.h"

namespace optrush {
namespace {
TEST(Statistics, Median) {
  EXPECT_FALSE(median({}));
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({5, 1, 3}), 3);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
}

// scipy.stats.t.ppf(0.975, df)
TEST(Statistics, QuantileOfStudentsT) {
  EXPECT_NEAR(t_quantile(1), 12.706204736174694, 1e-9);
  EXPECT_NEAR(t_quantile(2), 4.302652729749462, 1e-9);
  EXPECT_NEAR(t_quantile(4), 2.7764451051977987, 1e-9);
  EXPECT_NEAR(t_quantile(9), 2.262157162798205, 1e-9);
  EXPECT_NEAR(t_quantile(30), 2.0422724563012378, 1e-9);
  EXPECT_NEAR(t_quantile(2.5), 3.5746548420036817, 1e-9);
}

// With numpy and scipy: d = log(a / b); exp(mean(d)), exp(mean(d) -+ t.ppf(0.975, 4) * std(d, ddof=1) /
// sqrt(5))
TEST(Statistics, PairedInterval) {
  const Ratio ratio = paired_ratio({2010, 1985, 2050, 1990, 2025}, {1000, 1005, 995, 1010, 998});
  EXPECT_EQ(ratio.rounds, 5U);
  EXPECT_NEAR(ratio.value, 2.0086741712945146, 1e-12);
  ASSERT_TRUE(ratio.interval);
  EXPECT_NEAR(ratio.interval->low, 1.962515401878009, 1e-12);
  EXPECT_NEAR(ratio.interval->high, 2.0559186045442863, 1e-12);
  EXPECT_TRUE(ratio.claim());
}

TEST(Statistics, PairsCancelTheDriftOfAMachine) {
  // Both speeds halve from the first round to the last. The ratio does not change.
  const Ratio ratio = paired_ratio({2000, 1500, 1000}, {1000, 750, 500});
  EXPECT_NEAR(ratio.value, 2, 1e-12);
  // The rest is the least spread of three rounds, with t.ppf(0.975, 2).
  const double half = 4.302652729749462 * kLeastSpread / std::sqrt(3);
  EXPECT_NEAR(ratio.interval->low, 2 * std::exp(-half), 1e-12);
  EXPECT_NEAR(ratio.interval->high, 2 * std::exp(half), 1e-12);
}

// A coarse clock gives equal times in a few rounds.
TEST(Statistics, EqualTimesAreNotCertainty) {
  const Ratio small = paired_ratio({1000.5, 1000.5, 1000.5}, {1000, 1000, 1000});
  EXPECT_FALSE(small.claim());
  EXPECT_EQ(verdict_of(small).outcome, Outcome::alike);
  EXPECT_GT(small.standard_error(), 0);
  EXPECT_FALSE(unpaired_ratio({1000.5, 1000.5, 1000.5}, {1000, 1000, 1000}).claim());
  // Three equal rounds tell more than the spread apart.
  EXPECT_EQ(verdict_of(paired_ratio({1010, 1010, 1010}, {1000, 1000, 1000})).outcome, Outcome::faster);
  EXPECT_EQ(verdict_of(unpaired_ratio({1000, 1000, 1000}, {1010, 1010, 1010})).outcome, Outcome::slower);
}

TEST(Statistics, CommonVarianceCountsBesideThePairsOwn) {
  // Logarithms 0.02, 0 and 0.01: a variance of 0.0001 with 2 degrees of freedom, beside 0.0006 with 8.
  const Standard standard{.intervals = 19, .variance = {.value = 0.0006, .degrees = 8}};
  const Ratio ratio = ratio_of_logs({0.02, 0, 0.01}, standard);
  EXPECT_EQ(ratio.degrees_of_freedom(), 10);
  EXPECT_NEAR(ratio.standard_error(), std::sqrt(0.0005 / 3), 1e-12);
  EXPECT_NEAR(std::log(ratio.interval->high / ratio.value), t_quantile(10, 0.05 / 19) * std::sqrt(0.0005 / 3),
              1e-12);
}

TEST(Statistics, TwoRoundsClaimNothing) {
  const Ratio ratio = paired_ratio({2000, 2000}, {1000, 1000});
  EXPECT_NEAR(ratio.value, 2, 1e-12);
  EXPECT_FALSE(ratio.interval);
  EXPECT_FALSE(ratio.claim());
  const Verdict verdict = verdict_of(ratio);
  EXPECT_EQ(verdict.outcome, Outcome::too_few);
  EXPECT_EQ(verdict.more, 1U);
}

TEST(Verdict, IntervalThatExcludesOneIsADifference) {
  EXPECT_EQ(verdict_of(paired_ratio({1020, 1021, 1022}, {1000, 1000, 1000})).outcome, Outcome::faster);
  EXPECT_EQ(verdict_of(paired_ratio({1000, 1000, 1000}, {1020, 1021, 1022})).outcome, Outcome::slower);
}

// With scipy: the far end of the 90 % interval of the same logarithms, 1.0190.
TEST(Verdict, NoDifferenceHasItsBound) {
  const Ratio ratio = paired_ratio({1010, 990, 1005}, {1000, 1000, 1000});
  const Verdict verdict = verdict_of(ratio);
  EXPECT_EQ(verdict.outcome, Outcome::alike);
  const double mean = std::log(ratio.value), error = ratio.standard_error();
  EXPECT_NEAR(verdict.bound, std::exp(std::abs(mean) + 2.919985580353726 * error) - 1, 1e-9);
  EXPECT_EQ(describe(verdict), "no difference above 2.0 %");
  // Rounded up, because 1.0 % is below the plausible limit.
  EXPECT_EQ(describe({Outcome::alike, 0.01001}), "no difference above 1.1 %");
}

TEST(Verdict, UndecidedVerdictNamesTheRoundsThatDecide) {
  const Ratio ratio = paired_ratio({1200, 900, 1100, 950}, {1000, 1000, 1000, 1000});
  const Verdict verdict = verdict_of(ratio);
  EXPECT_EQ(verdict.outcome, Outcome::undecided);
  ASSERT_TRUE(verdict.more);
  // With this mean and spread, this number of rounds decides, and one round fewer does not.
  const auto after = [&](size_t rounds) {
    const double mean = std::log(ratio.value), spread = ratio.standard_error() * 2;
    const double half = t_quantile(rounds - 1.0) * spread / std::sqrt(rounds);
    return verdict_of({ratio.value, Interval{std::exp(mean - half), std::exp(mean + half)}, rounds}).outcome;
  };
  EXPECT_NE(after(4 + *verdict.more), Outcome::undecided);
  EXPECT_EQ(after(3 + *verdict.more), Outcome::undecided);
}

// n rounds have n - 1 degrees of freedom, which matters for few rounds: t(3) 0.1 / 2 > 0.14 > t(4) 0.1 /
// sqrt(5).
TEST(Verdict, FewRoundsCountTheDegreesOfFreedom) {
  const Ratio ratio = paired_ratio({std::exp(0.04), std::exp(0.14), std::exp(0.24)}, {1, 1, 1});
  EXPECT_EQ(verdict_of(ratio).more, 2U);
}

TEST(Verdict, TooManyRoundsToDecideIsReported) {
  const Verdict verdict = verdict_of({1.025, Interval{0.1, 10.5}, 3});
  EXPECT_FALSE(verdict.more);
  EXPECT_EQ(describe(verdict), "undecided; 1,000 rounds would not decide it");
}

// scipy.stats.ttest_ind(log(a), log(b), equal_var=False).confidence_interval(0.95)
TEST(Statistics, UnpairedInterval) {
  const Ratio ratio = unpaired_ratio({2010, 1985, 2050, 1990}, {1000, 1005, 940});
  EXPECT_NEAR(ratio.value, 2.047039571104758, 1e-12);
  ASSERT_TRUE(ratio.interval);
  EXPECT_NEAR(ratio.interval->low, 1.8859627519417164, 1e-9);
  EXPECT_NEAR(ratio.interval->high, 2.2218736830059362, 1e-9);
}

TEST(Statistics, RefusesInvalidSamples) {
  EXPECT_THROW(paired_ratio({0, 1, 1}, {1, 1, 1}), Error);
  EXPECT_THROW(paired_ratio({1, 1}, {1, 1, 1}), Error);
  EXPECT_THROW(paired_ratio({std::nan(""), 1, 1}, {1, 1, 1}), Error);
}
}  // namespace
}  // namespace optrush
