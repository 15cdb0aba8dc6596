// The search for the best stack, over evaluators whose speeds are known.
#include "search/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <set>

namespace optrush {
namespace {
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using End = Forecast::End;

bool holds(const Picks& stack, size_t axis, size_t choice = 0) {
  return std::ranges::count(stack, Pick{axis, choice}) > 0;
}

/// Speeds by a formula. A difference of 1 % or more is a claim.
class Bench final : public Evaluator {
 public:
  using Speed = std::function<double(const Picks&)>;
  explicit Bench(Speed speed) : speed_(std::move(speed)) {}

  Forecast forecast(const Picks& stack) override {
    ++forecasts;
    return forecast_of(stack);
  }
  std::vector<Trial> measure(const Picks& reference, const std::vector<Picks>& stacks) override {
    std::vector<Trial> trials;
    for (const Picks& stack : stacks) {
      EXPECT_EQ(forecast_of(stack).end, End::fits);
      ++runs;
      const double ratio = speed_(stack) / speed_(reference);
      const bool ok = !broken(stack);
      if (broken(reference))
        trials.push_back({.reason = "the reference breaks", .reference_failed = true});
      else
        trials.push_back({.ok = ok, .reason = ok ? "" : "it breaks", .speed = ratio, .faster = ratio > 1.01});
    }
    return trials;
  }
  bool goes_on() override { return stages_left-- > 0; }

  std::function<Forecast(const Picks&)> forecast_of = [](const Picks&) { return Forecast{}; };
  std::function<bool(const Picks&)> broken = [](const Picks&) { return false; };
  size_t runs = 0, forecasts = 0;
  int stages_left = 100;

 private:
  Speed speed_;
};

TEST(Search, AddsThePartWithTheLargestGainFirst) {
  Bench bench([](const Picks& stack) {
    return (holds(stack, 0) ? 1.1 : 1) * (holds(stack, 1) ? 0.8 : 1) * (holds(stack, 2) ? 1.5 : 1);
  });
  const Found found = search({1, 1, 1}, bench);
  EXPECT_THAT(found.best, ElementsAre(Pick{2, 0}, Pick{0, 0}));
  EXPECT_TRUE(found.finished);
  EXPECT_EQ(found.stages.size(), 2U);  // each part alone, then no further move
}

TEST(Search, BestAlternativeOfAnAxisIsTaken) {
  Bench bench([](const Picks& stack) {
    return (holds(stack, 0, 0) ? 1.1 : 1) * (holds(stack, 0, 1) ? 1.3 : 1) * (holds(stack, 0, 2) ? 1.2 : 1);
  });
  EXPECT_THAT(search({3}, bench).best, ElementsAre(Pick{0, 1}));
}

TEST(Search, PartThatHelpsOnlyWithAnotherIsAddedLater) {
  Bench bench([](const Picks& stack) {
    return (holds(stack, 0) ? 1.4 : 1) * (holds(stack, 1) ? (holds(stack, 0) ? 1.2 : 0.9) : 1);
  });
  EXPECT_THAT(search({1, 1}, bench).best, UnorderedElementsAre(Pick{0, 0}, Pick{1, 0}));
}

TEST(Search, SlowerAlternativeOfAnAxisDoesNotReplaceTheFasterOne) {
  // Neither is faster alone. On top of the first part both are.
  Bench bench([](const Picks& stack) {
    const double batch = holds(stack, 1, 0) ? 1.2 : holds(stack, 1, 1) ? 1.3 : 1;
    return holds(stack, 0) ? 1.4 * batch : holds(stack, 1, 0) || holds(stack, 1, 1) ? 0.9 : 1.0;
  });
  const Found found = search({1, 2}, bench);
  EXPECT_THAT(found.best, UnorderedElementsAre(Pick{0, 0}, Pick{1, 1}));
  EXPECT_EQ(found.stages.size(), 3U) << "the faster alternative is taken at once";
}

TEST(Search, PartThatHelpsAloneButNotInTheStackIsRemoved) {
  Bench bench([](const Picks& stack) {
    if (holds(stack, 0) && holds(stack, 1)) return 1.3;  // less than the first part alone
    return holds(stack, 0) ? 1.4 : holds(stack, 1) ? 1.2 : 1.0;
  });
  EXPECT_THAT(search({1, 1}, bench).best, ElementsAre(Pick{0, 0}));
}

TEST(Search, SmallGainsAreTriedTogether) {
  // 0.8 % each, and a claim takes 1 %.
  Bench bench([](const Picks& stack) {
    return std::pow(1.008, static_cast<double>(stack.size())) * (holds(stack, 3) ? 0.9 : 1);
  });
  EXPECT_THAT(search({1, 1, 1, 1}, bench).best, UnorderedElementsAre(Pick{0, 0}, Pick{1, 0}, Pick{2, 0}));
}

TEST(Search, SmallGainsInTheStackAreTriedTogether) {
  // No gain alone, 0.8 % each on top of the first part.
  Bench bench([](const Picks& stack) {
    const auto others = static_cast<double>(stack.size()) - (holds(stack, 0) ? 1 : 0);
    return holds(stack, 0) ? 1.4 * std::pow(1.008, others) : std::pow(0.999, others);
  });
  EXPECT_EQ(search({1, 1, 1, 1}, bench).best.size(), 4U);
}

TEST(Search, ConflictingPartsAreNeverRun) {
  Bench bench([](const Picks& stack) { return 1 + 0.2 * static_cast<double>(stack.size()); });
  bench.forecast_of = [](const Picks& stack) {
    return holds(stack, 0) && holds(stack, 2) ? Forecast{End::refused, "both replace one slot", 0}
                                              : Forecast{};
  };
  const Found found = search({1, 1, 1}, bench);
  EXPECT_EQ(found.best.size(), 2U);
  EXPECT_FALSE(holds(found.best, 0) && holds(found.best, 2));
}

TEST(Search, TooLargePartIsTriedWithAPartThatSavesMemory) {
  // A larger batch is 1.5 times as fast and does not fit; recomputing costs 10 % and makes room.
  Bench bench([](const Picks& stack) { return (holds(stack, 0) ? 1.5 : 1) * (holds(stack, 1) ? 0.9 : 1); });
  bench.forecast_of = [](const Picks& stack) {
    const double peak = (holds(stack, 0) ? 20 : 10) * (holds(stack, 1) ? 0.5 : 1);
    return peak > 12 ? Forecast{End::too_large, "too large", peak} : Forecast{End::fits, "", peak};
  };
  EXPECT_THAT(search({1, 1}, bench).best, UnorderedElementsAre(Pick{0, 0}, Pick{1, 0}));
}

TEST(Search, BrokenStackIsNoAnswer) {
  Bench bench([](const Picks& stack) { return holds(stack, 0) ? 3.0 : 1.0; });
  bench.broken = [](const Picks& stack) { return holds(stack, 0); };
  const Found found = search({1}, bench);
  EXPECT_THAT(found.best, IsEmpty());
  EXPECT_EQ(found.stages.front().stacks.front().reason, "it breaks");
}

TEST(Search, PartsThatBreakTogetherAreSeparated) {
  Bench bench([](const Picks& stack) {
    return (holds(stack, 0) ? 1.5 : 1) * (holds(stack, 1) ? 1.3 : 1) * (holds(stack, 2) ? 1.2 : 1);
  });
  bench.broken = [](const Picks& stack) { return holds(stack, 0) && holds(stack, 2); };
  const Found found = search({1, 1, 1}, bench);
  EXPECT_THAT(found.best, ElementsAre(Pick{0, 0}, Pick{1, 0}));
  EXPECT_TRUE(found.finished);
  EXPECT_EQ(found.stages.at(1).reference.size(), 3U);
  EXPECT_EQ(found.stages.at(1).stacks.front().reason, "the reference breaks");
  bench.broken = [](const Picks&) { return true; };
  EXPECT_THAT(search({1, 1, 1}, bench).best, IsEmpty()) << "the search ends if nothing trains";
}

TEST(Search, NoStackIsRunTwiceInAStage) {
  // Two parts that save memory. Each is out of memory without the other.
  Bench bench([](const Picks&) { return 1.0; });
  bench.forecast_of = [](const Picks& stack) {
    const bool one = holds(stack, 0) != holds(stack, 1);
    if (stack.size() == 1) return Forecast{End::fits, "", 5};
    return one ? Forecast{End::too_large, "too large", 20} : Forecast{End::fits, "", 10};
  };
  for (const SearchStage& stage : search({1, 1, 1}, bench).stages) {
    std::set<Picks> seen;
    for (const Considered& each : stage.stacks) {
      Picks stack = each.stack;
      std::ranges::sort(stack);
      EXPECT_TRUE(seen.insert(stack).second);
    }
  }
}

TEST(Search, EndsWithTheBestSoFarWhenTimeIsOver) {
  Bench bench([](const Picks& stack) {
    return (holds(stack, 0) ? 1.4 : 1) * (holds(stack, 1) ? (holds(stack, 0) ? 1.2 : 0.9) : 1);
  });
  bench.stages_left = 0;
  const Found found = search({1, 1}, bench);
  EXPECT_THAT(found.best, ElementsAre(Pick{0, 0}));
  EXPECT_FALSE(found.finished);
}

TEST(Search, TooShortStageDoesNotFinishTheSearch) {
  class Hurried final : public Evaluator {
   public:
    Forecast forecast(const Picks&) override { return {}; }
    std::vector<Trial> measure(const Picks&, const std::vector<Picks>& stacks) override {
      return std::vector<Trial>(stacks.size(), {.ok = true, .speed = 1.3, .too_short = true});
    }
    bool goes_on() override { return true; }
  } hurried;
  const Found found = search({1}, hurried);
  EXPECT_FALSE(found.finished);
  EXPECT_FALSE(found.answered);
  EXPECT_EQ(found.stages.size(), 1U) << "no stack can be built on it";
}

/// Stages within a time limit. The share of the time sets the number of rounds of each stage.
class Limited final : public Evaluator {
 public:
  explicit Limited(std::vector<size_t> rounds) : rounds_(std::move(rounds)) {}
  Forecast forecast(const Picks&) override { return {}; }
  std::vector<Trial> measure(const Picks& reference, const std::vector<Picks>& stacks) override {
    const size_t rounds = rounds_.at(std::min(stage_++, rounds_.size() - 1));
    std::vector<Trial> trials;
    for (const Picks& stack : stacks) {
      const double ratio =
          std::pow(1.3, static_cast<double>(stack.size()) - static_cast<double>(reference.size()));
      trials.push_back({.ok = true,
                        .speed = ratio,
                        .faster = rounds >= 3 && ratio > 1,
                        .too_short = rounds < 3,
                        .rounds = rounds});
    }
    return trials;
  }
  bool goes_on() override { return stage_ < 5; }

 private:
  std::vector<size_t> rounds_;
  size_t stage_ = 0;
};

TEST(Search, ClaimOfTheFirstStageStandsIfTheNextHasNone) {
  Limited evaluator({3, 2});
  const Found found = search({1, 1}, evaluator);
  EXPECT_EQ(found.best.size(), 2U) << "both are faster alone";
  EXPECT_TRUE(found.answered);
  EXPECT_FALSE(found.finished);
  EXPECT_EQ(found.stages.size(), 2U) << "no third stage follows a stage without a claim";
}

TEST(Search, HasNoAnswerWithoutAClaim) {
  Limited evaluator({2});
  const Found found = search({1, 1, 1}, evaluator);
  EXPECT_THAT(found.best, IsEmpty());
  EXPECT_FALSE(found.answered);
  EXPECT_EQ(found.stages.size(), 1U);
  for (const Considered& each : found.stages.front().stacks) EXPECT_EQ(each.trial.rounds, 2U);
}

/// Every stack of these axes.
std::vector<Picks> grid(const std::vector<size_t>& choices) {
  std::vector<Picks> all = {{}};
  for (size_t axis = 0; axis < choices.size(); ++axis)
    for (size_t i = 0, before = all.size(); i < before; ++i)
      for (size_t choice = 0; choice < choices[axis]; ++choice) {
        all.push_back(all[i]);
        all.back().push_back({axis, choice});
      }
  return all;
}

TEST(Search, ComesCloseToTheBestOfTheGridInAQuarterOfItsRuns) {
  std::mt19937 random(11);
  std::normal_distribution<double> own(0.05, 0.15), between(0, 0.04);
  const std::vector<size_t> choices = {1, 2, 1, 1, 2, 1, 1};
  size_t close = 0;
  constexpr size_t kEvaluators = 200;
  for (size_t i = 0; i < kEvaluators; ++i) {
    std::map<Pick, double> effect;
    std::map<std::pair<Pick, Pick>, double> together;
    for (const Picks& stack : grid(choices))
      for (const Pick& a : stack) {
        effect.try_emplace(a, own(random));
        for (const Pick& b : stack)
          if (a < b) together.try_emplace({a, b}, between(random));
      }
    const auto speed = [&](const Picks& stack) {
      double log = 0;
      for (const Pick& a : stack) {
        log += effect.at(a);
        for (const Pick& b : stack)
          if (a < b) log += together.at({a, b});
      }
      return std::exp(log);
    };
    Bench bench(speed);
    const double found = speed(search(choices, bench).best);
    double best = 0;
    for (const Picks& stack : grid(choices)) best = std::max(best, speed(stack));
    if (found > best * 0.97) ++close;
    EXPECT_LE(bench.runs * 4, grid(choices).size());
  }
  EXPECT_GE(close, kEvaluators * 9 / 10);
}
}  // namespace
}  // namespace optrush
