#include "analysis/gate/gate.h"

#include <gmock/gmock.h>

#include <cmath>

namespace optrush {
namespace {
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// The losses of a program that reports no gradient norms.
Curve losses(std::vector<double> values) { return {std::move(values), {}}; }
Curve norms(std::vector<double> values) {
  return {std::vector<double>(values.size(), 5.0), std::move(values)};
}

GateCheck compared(double tolerance, double irreproducible = 1e-4) {
  GateCheck check;
  check.reference_variant = 0;
  check.allowed = {tolerance, tolerance};
  check.allowed_if_irreproducible = {irreproducible, irreproducible};
  return check;
}

TEST(GateVerdict, ExactMeansBitEqual) {
  const Curve curve = losses({5, 4.5, 4});
  EXPECT_TRUE(judge(compared(0), {{curve}, {}, {curve}}).passed);
  const auto verdict = judge(compared(0), {{losses({5, std::nextafter(4.5, 5), 4})}, {}, {curve, curve}});
  EXPECT_FALSE(verdict.passed);
  EXPECT_TRUE(verdict.compared);
  EXPECT_EQ(verdict.loss.at_step, 1);
  EXPECT_THAT(verdict.message, HasSubstr("none is allowed"));
}

TEST(GateVerdict, EachToleranceIsABound) {
  for (const double tolerance : {1e-9, 1e-4, 5e-3, 2e-2}) {
    const Curve reference = losses({5, 4.5, 4});
    const auto off_by = [&](double d) { return losses({5, 4.5 * (1 + d), 4}); };
    EXPECT_TRUE(judge(compared(tolerance, tolerance), {{off_by(0.9 * tolerance)}, {}, {reference}}).passed)
        << tolerance;
    EXPECT_TRUE(judge(compared(tolerance, tolerance), {{off_by(-0.9 * tolerance)}, {}, {reference}}).passed)
        << tolerance;
    const auto verdict = judge(compared(tolerance, tolerance), {{off_by(1.1 * tolerance)}, {}, {reference}});
    EXPECT_FALSE(verdict.passed) << tolerance;
    EXPECT_NEAR(verdict.loss.worst, 1.1 * tolerance, 0.01 * tolerance);
  }
}

TEST(GateVerdict, EveryRoundCounts) {
  const Curve good = losses({5, 4.5, 4}), bad = losses({5, 4.5, 3});
  EXPECT_TRUE(judge(compared(1e-4), {{good, good}, {}, {good}}).passed);
  EXPECT_FALSE(judge(compared(1e-4), {{good, bad}, {}, {good}}).passed);
}

TEST(GateVerdict, ProbeIsJudgedInPlaceOfTheRung) {
  GateCheck check = compared(1e-4);
  check.subject = RunSpec{};
  const Curve reference = losses({5, 4.5, 4}), own = losses({9, 8, 7});
  EXPECT_TRUE(judge(check, {{own}, losses({5, 4.5}), {reference}}).passed)
      << "only the common steps are compared";
  EXPECT_FALSE(judge(check, {{own}, losses({5, 4.6}), {reference}}).passed);
}

TEST(GateVerdict, EqualBitsAreNotRequiredOnAnIrreproducibleMachine) {
  const Curve first = losses({5, 4.5, 4}), second = losses({5, 4.5 * (1 + 1e-7), 4});
  EXPECT_FALSE(judge(compared(0), {{second}, {}, {first, first}}).passed);
  const auto verdict = judge(compared(0), {{second}, {}, {first, second}});
  EXPECT_TRUE(verdict.passed);
  EXPECT_EQ(verdict.loss.tolerance, 1e-4);
  EXPECT_THAT(verdict.message, HasSubstr("not bit-equal"));
  EXPECT_FALSE(judge(compared(0), {{losses({5, 4.6, 4})}, {}, {first, second}}).passed);
}

TEST(GateVerdict, ReferenceThatRanOnceNeedsARepeat) {
  const Curve reference = losses({5, 4.5, 4}), other = losses({5, 4.5 * (1 + 1e-7), 4});
  const auto open = judge(compared(0), {{other}, {}, {reference}});
  EXPECT_TRUE(open.undecided && open.passed);
  EXPECT_EQ(open.loss.tolerance, 1e-4);
  EXPECT_THAT(open.message, HasSubstr("ran only once"));
  const auto repeats = judge(compared(0), {{other}, {}, {reference}, reference});
  EXPECT_FALSE(repeats.passed || repeats.undecided)
      << "a repeat gives the same bits, so the check requires equal bits";
  const auto differs = judge(compared(0), {{other}, {}, {reference}, losses({5, 4.5, 4 * (1 + 1e-7)})});
  EXPECT_TRUE(differs.passed && !differs.undecided);
  EXPECT_THAT(differs.message, HasSubstr("not bit-equal"));
  EXPECT_FALSE(judge(compared(0), {{reference}, {}, {reference}}).undecided)
      << "no repeat is needed for equal bits";
  EXPECT_FALSE(judge(compared(0), {{losses({5, 4.6, 4})}, {}, {reference}}).passed)
      << "no repeat can explain this difference";
  EXPECT_FALSE(judge(compared(1e-4), {{other}, {}, {reference}}).undecided);
}

TEST(GateVerdict, NaNNeverPasses) {
  const double nan = std::nan("");
  EXPECT_FALSE(judge(compared(2e-2), {{losses({5, nan, 4})}, {}, {losses({5, 4.5, 4})}}).passed);
  EXPECT_FALSE(judge(compared(2e-2), {{losses({5, 4.5, 4})}, {}, {losses({5, nan, 4})}}).passed);
  EXPECT_FALSE(judge(compared(2e-2), {{losses({})}, {}, {losses({5, 4.5, 4})}}).passed) << "no common step";
}

TEST(GateVerdict, AWrongGradientScaleBreaksARungWhoseLossesAgree) {
  const Curve reference = norms({1.5, 1.4, 1.3});
  const auto verdict = judge(compared(1e-4), {{norms({3, 2.8, 2.6})}, {}, {reference}});
  EXPECT_FALSE(verdict.passed) << "AdamW's update does not depend on the scale";
  ASSERT_TRUE(verdict.norm);
  EXPECT_NEAR(verdict.norm->worst, 1, 1e-12);
  EXPECT_THAT(verdict.message, StartsWith("the gradient norm of step 0 is 3, 2 times the reference's 1.5"));
  EXPECT_TRUE(judge(compared(1e-4), {{reference}, {}, {reference}}).passed);
}

TEST(GateVerdict, NormsHaveTheirOwnBound) {
  GateCheck check = compared(1e-4);
  check.allowed.norm = check.allowed_if_irreproducible.norm = 1e-3;
  const auto passes = [&](double d) {
    return judge(check, {{norms({1.5, 1.4 * (1 + d)})}, {}, {norms({1.5, 1.4})}}).passed;
  };
  EXPECT_TRUE(passes(9e-4));
  EXPECT_TRUE(passes(-9e-4));
  EXPECT_FALSE(passes(1.1e-3));
  EXPECT_FALSE(passes(-1.1e-3));
}

TEST(GateVerdict, ExactNormsAreBitEqual) {
  const Curve reference = norms({1.5, 1.4}), other = norms({1.5, std::nextafter(1.4, 2)});
  const auto verdict = judge(compared(0), {{other}, {}, {reference, reference}});
  EXPECT_FALSE(verdict.passed);
  EXPECT_THAT(verdict.message,
              HasSubstr("the gradient norm of step 1 is 1.4000000000000001 and that of the reference 1.4"));
  EXPECT_TRUE(judge(compared(0), {{other}, {}, {reference, other}}).passed)
      << "the reference's rounds differ";
  EXPECT_TRUE(judge(compared(0), {{other}, {}, {reference}}).undecided) << "undecided until a repeat";
}

TEST(GateVerdict, NormsAreComparedUntilOneRunSkipsAnUpdate) {
  const double skipped = std::nan("");
  const auto both = judge(compared(1e-4), {{norms({skipped, 1.4, 1.3})}, {}, {norms({skipped, 1.4, 2.6})}});
  EXPECT_FALSE(both.passed) << "both skipped the first update";
  EXPECT_EQ(both.norm->at_step, 2);
  const auto one = judge(compared(1e-4), {{norms({1.5, skipped, 2.6})}, {}, {norms({1.5, 1.4, 1.3})}});
  EXPECT_TRUE(one.passed) << "one skipped an update, so the parameters differ";
  EXPECT_EQ(one.norm->at_step, 0);
  const auto none = judge(compared(1e-4), {{norms({skipped, skipped})}, {}, {norms({1.5, 1.4})}});
  EXPECT_TRUE(none.passed && none.compared);
  EXPECT_FALSE(none.norm);
}

TEST(GateVerdict, NormsOfALongRunMayDriftApart) {
  const std::vector<double> reference(20, 1.5);
  const auto verdict = [&](const std::vector<size_t>& doubled) {
    auto subject = reference;
    for (const size_t step : doubled) subject[step] *= 2;
    return judge(compared(1e-4), {{norms(subject)}, {}, {norms(reference)}});
  };
  EXPECT_TRUE(verdict({19}).passed);
  EXPECT_TRUE(verdict({11}).passed) << "one late norm";
  EXPECT_THAT(verdict({11}).message, HasSubstr("that of step 11 differs by 1"));
  EXPECT_TRUE(verdict({9, 11}).passed);
  EXPECT_FALSE(verdict({7, 9, 11}).passed) << "every second one";
  EXPECT_FALSE(verdict({5}).passed) << "one of the first";
}

TEST(GateVerdict, ALateNormCountsWhereEqualBitsAreRequired) {
  const std::vector<double> reference(20, 1.5);
  auto subject = reference;
  subject[11] = std::nextafter(1.5, 2);
  EXPECT_FALSE(judge(compared(0), {{norms(subject)}, {}, {norms(reference), norms(reference)}}).passed);
}

/// From 5 down to 4.
std::vector<double> falling(size_t steps) {
  std::vector<double> values(steps);
  for (size_t i = 0; i < steps; ++i) values[i] = 5 - static_cast<double>(i) / static_cast<double>(steps - 1);
  return values;
}

GateVerdict judged(const std::vector<double>& subject, const std::vector<double>& reference,
                   double tolerance = 1e-4) {
  return judge(compared(tolerance), {{losses(subject)}, {}, {losses(reference), losses(reference)}});
}

TEST(GateVerdict, LossesOfALongRunMayScatter) {
  const auto reference = falling(100);
  auto scattered = reference;
  for (size_t i = kLossSteps; i < scattered.size(); ++i) scattered[i] *= i % 2 == 0 ? 1.2 : 0.8;
  const GateVerdict verdict = judged(scattered, reference);
  EXPECT_TRUE(verdict.passed) << verdict.message;
  EXPECT_EQ(verdict.loss.worst, 0);
  ASSERT_TRUE(verdict.later);
  EXPECT_GT(verdict.later->worst, 0);
  EXPECT_THAT(verdict.message,
              StartsWith("losses of the first 24 steps are bit-equal; means of 24 later ones by up to "));
  EXPECT_FALSE(judged(scattered, reference, 0).passed) << "the check requires equal bits";
  for (const size_t step : {size_t{0}, kLossSteps - 1}) {
    auto early = reference;
    early[step] *= 1.01;
    EXPECT_FALSE(judged(early, reference).passed) << step;
  }
  auto next = reference;
  next[kLossSteps] *= 1.01;
  EXPECT_TRUE(judged(next, reference).passed);
}

TEST(GateVerdict, MeansOfLaterLossesMustAgree) {
  for (const size_t steps : {kLossSteps + 1, 2 * kLossSteps, size_t{100}, size_t{1000}}) {
    const auto reference = falling(steps);
    for (const double apart : {-0.3, -0.2, 0.2, 0.3}) {  // the limit is 0.25, 5 % of the first loss
      auto subject = reference;
      const size_t whole = steps - kLossSteps;  // the last window
      for (size_t i = std::max(whole, kLossSteps); i < steps; ++i)
        subject[i] += apart * kLossSteps / static_cast<double>(steps - std::max(whole, kLossSteps));
      const GateVerdict verdict = judged(subject, reference);
      EXPECT_EQ(verdict.passed, std::abs(apart) < 0.25) << steps << " " << apart << verdict.message;
      ASSERT_TRUE(verdict.later);
      EXPECT_EQ(verdict.later->at_step, whole);
      EXPECT_NEAR(verdict.later->worst, std::abs(apart) / 5, 1e-9);
      EXPECT_EQ(verdict.later->tolerance, 0.05);
    }
  }
  EXPECT_FALSE(judged(falling(kLossSteps), falling(kLossSteps)).later);
  EXPECT_FALSE(judged(falling(100), falling(100), 0).later);
  EXPECT_EQ(judged(falling(100), falling(100)).message, "losses are bit-equal");
}

TEST(GateVerdict, DifferenceInAMiddleWindowFails) {
  const auto reference = falling(200);
  auto subject = reference;
  for (size_t i = 80; i < 140; ++i) subject[i] += 1;
  const GateVerdict verdict = judged(subject, reference);
  EXPECT_FALSE(verdict.passed);
  EXPECT_THAT(verdict.message, StartsWith("from step 104 on the mean of 24 losses is "));
  EXPECT_THAT(verdict.message,
              HasSubstr("20 % of the first loss apart; 5 % is allowed; losses of the first 24 steps"));
  subject = reference;
  subject[190] = std::nan("");
  EXPECT_FALSE(judged(subject, reference).passed);
}

TEST(GateTolerance, NormsScatterMoreThanLosses) {
  for (const Effect effect : {Effect::rounding, Effect::precision, Effect::batch, Effect::model})
    for (const Arithmetic arithmetic : {Arithmetic::fp64, Arithmetic::fp32, Arithmetic::reduced}) {
      const Allowance allowed = allowance_of(effect, arithmetic);
      EXPECT_GT(allowed.norm, allowed.loss);
      EXPECT_LT(allowed.norm, 0.5) << "half of a gradient must fail";
    }
  EXPECT_EQ(allowance_of(Effect::exact, Arithmetic::reduced).norm, 0);
}

/// A loss that changes linearly.
Curve slope(size_t steps, double change) {
  std::vector<double> values;
  for (size_t i = 0; i < steps; ++i) values.push_back(5 + change * static_cast<double>(i));
  return losses(values);
}

TEST(GateVerdict, LossMustFallIfTheReferenceDidNotRun) {
  const auto fell = judge(compared(0), {{slope(kStepsForAFall, -0.1)}, {}, {}});
  EXPECT_TRUE(fell.passed);
  EXPECT_FALSE(fell.compared);
  EXPECT_THAT(fell.message, HasSubstr("reference did not run"));
  EXPECT_FALSE(judge(compared(0), {{slope(kStepsForAFall, 0.1)}, {}, {}}).passed);
}

GateCheck falling() {
  GateCheck check;
  check.must_fall = true;
  return check;
}

TEST(GateVerdict, FallingLossIsDistinguishedFromNoise) {
  const auto passes = [](const Curve& curve) { return judge(falling(), {{curve}, {}, {}}).passed; };
  EXPECT_TRUE(passes(slope(12, -0.1)));
  EXPECT_FALSE(passes(slope(12, 0))) << "nothing is learned";
  EXPECT_FALSE(passes(losses({5, 5.1, 5.2, 5.4, 5.6, 6, 6.5, 7, 7.5, 8, 8.5, 9})));
  EXPECT_TRUE(passes(losses({5.0, 5.2, 4.9, 5.1, 5.3, 5.0, 5.02, 5.21, 4.95, 5.3, 5.15, 5.0})))
      << "the rise is within the spread of batches";
}

TEST(GateVerdict, FewStepsCannotShowAFall) {
  const auto verdict = judge(falling(), {{slope(5, 0.01)}, {}, {}});
  EXPECT_TRUE(verdict.passed);
  EXPECT_FALSE(verdict.compared);
  EXPECT_THAT(verdict.message, HasSubstr("the check for a falling loss needs 12 steps, and the run has 5"));
}

TEST(GateVerdict, AFunctionThatAgreesButDoesNotTrainFails) {
  GateCheck check = compared(1e-4);
  check.must_fall = true;
  const Curve flat = slope(12, 0);
  EXPECT_FALSE(judge(check, {{flat}, {}, {flat}}).passed);
  EXPECT_TRUE(judge(check, {{slope(6, 0)}, {}, {slope(6, 0)}}).passed) << "too few steps to decide";
}

TEST(GateVerdict, HarderBatchesDoNotFailARung) {
  const Curve rises = losses({5, 5.1, 5.05, 5.1, 5.2, 5.3, 5.5, 5.6, 5.7, 5.9, 6, 6.1});
  EXPECT_FALSE(judge(falling(), {{rises}, {}, {}}).passed);
  const auto verdict = judge(falling(), {.own = {rises}, .base = rises});
  EXPECT_TRUE(verdict.passed) << "the base's loss rises as much on the same batches";
  EXPECT_FALSE(verdict.compared);
  EXPECT_FALSE(judge(falling(), {.own = {rises}, .base = slope(12, -0.01)}).passed) << "the base learns";
  EXPECT_FALSE(judge(falling(), {.own = {rises}, .base = slope(6, 0.2)}).passed)
      << "the base has other steps";
  EXPECT_FALSE(judge(falling(), {.own = {slope(12, 0.1)}, .base = slope(12, 0.05)}).passed)
      << "it rises twice as much";
}

TEST(GateVerdict, DivergenceIsNotExcusedByItsOwnScatter) {
  const Curve diverges = losses({5.5, 29, 29.2, 48.9, 31.6, 38.2, 38.9, 42.3, 41.7, 36.1, 38.4, 36.7});
  Curve base = losses({5.5, 5.6, 5.6, 5.5, 5.6, 5.5, 5.5, 5.6, 5.5, 5.6, 5.5, 5.5});
  EXPECT_FALSE(judge(falling(), {.own = {diverges}, .base = base}).passed);
  Curve noisy = base;
  for (size_t i = 0; i < noisy.losses.size(); ++i) noisy.losses[i] += i % 3 == 0 ? -0.04 : 0.04;
  EXPECT_TRUE(judge(falling(), {.own = {noisy}, .base = slope(12, -1e-4)}).passed)
      << "the loss may be random, as with dropout";
}
/// 30 losses that halve from 4 down to `last`.
Curve memorized(double last) {
  std::vector<double> values;
  for (int step = 0; step < 30; ++step) values.push_back(std::max(last, 4 * std::pow(0.5, step)));
  return losses(values);
}

TEST(GateVerdict, OverfittedBatchMustReachItsLoss) {
  GateCheck check;
  check.overfit = 0.1;
  EXPECT_TRUE(judge(check, {{memorized(0.05)}, {}, {}}).passed);
  const auto verdict = judge(check, {{memorized(0.05), memorized(0.2)}, {}, {}});
  EXPECT_FALSE(verdict.passed) << "all rounds must pass";
  EXPECT_THAT(verdict.message, AllOf(HasSubstr("0.2 after 30 steps"), HasSubstr("less than 0.1")));
  EXPECT_FALSE(judge(check, {{memorized(0.1)}, {}, {}}).passed) << "the loss must be below the limit";
}

TEST(GateVerdict, LossesNearZeroAreNotCompared) {
  GateCheck check = compared(1e-4);
  Curve subject = memorized(0.05), reference = memorized(0.05);
  for (size_t step = kLossSteps; step < 30; ++step) subject.losses[step] += 3;
  EXPECT_FALSE(judge(check, {{subject}, {}, {reference}}).passed);
  check.overfit = 0.1;
  subject.losses.back() = 0.05;
  EXPECT_TRUE(judge(check, {{subject}, {}, {reference}}).passed);
}
}  // namespace
}  // namespace optrush
