#include "launch/schedule/time_limit.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "analysis/numbers/verdict.h"

namespace optrush {
namespace {
using ::testing::ElementsAre;
using ::testing::IsEmpty;

RoundState state(std::vector<Pair> pairs, double seconds_left = 100) {
  return {{.within = 0.03, .at_most_s = 100},
          seconds_left,
          6,
          {{0, 1}, {1, 1}, {2, 1}, {3, 1}},
          std::move(pairs)};
}

TEST(NextRound, RunsWideRungsAndTheirReferences) {
  EXPECT_THAT(next_round(state({{1, 0, 6, 0.01}, {2, 1, 6, 0.04}, {3, 2, 6, 0.02}})), ElementsAre(1, 2));
}

TEST(NextRound, EndsWhenEveryIntervalIsNarrow) {
  EXPECT_THAT(next_round(state({{1, 0, 6, 0.01}, {2, 1, 6, 0.03}})), IsEmpty());
}

TEST(NextRound, FewRoundsAreNeverEnough) {
  EXPECT_THAT(next_round(state({{1, 0, kLeastRounds - 1, 1e-9}})), ElementsAre(0, 1));
  EXPECT_THAT(next_round(state({{1, 0, 1, std::nullopt}})), ElementsAre(0, 1));
}

TEST(NextRound, RunsTheWidestFirstIfTimeIsShort) {
  const std::vector<Pair> pairs = {{1, 0, 6, 0.04}, {2, 0, 6, 0.2}, {3, 2, 6, 0.05}};
  EXPECT_THAT(next_round(state(pairs, 2)), ElementsAre(0, 2));
  EXPECT_THAT(next_round(state(pairs, 3)), ElementsAre(0, 2, 3));
  EXPECT_THAT(next_round(state(pairs, 1.9)), IsEmpty());
}

TEST(NextRound, SkipsRungsThatCannotRunAgain) {
  EXPECT_THAT(next_round(state({{5, 0, 6, 0.4}, {1, 0, 6, 0.04}})), ElementsAre(0, 1));
}

TEST(NextRound, RaceContinuesWithoutSettledRungs) {
  const auto raced = [](size_t rounds) {
    RoundState race = state({{1, 0, rounds, 0.2, true}, {2, 0, rounds, 0.2}, {3, 0, 6, 0.02}});
    race.until.race = true;
    return next_round(race);
  };
  EXPECT_THAT(raced(kLeastRoundsOfARace), ElementsAre(0, 2));
  EXPECT_THAT(raced(kLeastRoundsOfARace - 1), ElementsAre(0, 1, 2));
}

TEST(NextRound, EndsAtTheMaximumNumberOfRounds) {
  RoundState late = state({{1, 0, 6, 0.4}});
  late.rounds = kMostRounds;
  EXPECT_THAT(next_round(late), IsEmpty());
}

/// A ladder on a noisy machine, measured until all intervals are narrow. Speeds are logarithms.
class Simulation {
 public:
  using Noise = std::function<double(std::mt19937&)>;

  Simulation(std::vector<double> effects, Noise noise, double within)
      : effects_(std::move(effects)), noise_(std::move(noise)), within_(within) {
    speeds_.resize(effects_.size());
  }

  void run(std::mt19937& random) {
    double machine = 0;
    std::vector<int64_t> chosen(effects_.size());
    for (size_t i = 0; i < chosen.size(); ++i) chosen[i] = static_cast<int64_t>(i);
    RoundState state{{.within = within_, .at_most_s = 1e9}, 1e9, 0, {}, {}};
    for (const int64_t variant : chosen) state.seconds[variant] = 1;
    for (; !chosen.empty(); chosen = next_round(state)) {
      machine += std::normal_distribution(-0.005, 0.02)(random);  // the machine slows down as it gets warm
      for (const int64_t variant : chosen) {
        double speed = machine + noise_(random);
        for (int64_t below = 0; below <= variant; ++below) speed += effects_[static_cast<size_t>(below)];
        speeds_[static_cast<size_t>(variant)][state.rounds] = speed;
      }
      ++state.rounds;
      state.pairs.clear();
      for (int64_t variant = 1; variant < static_cast<int64_t>(speeds_.size()); ++variant) {
        add_pair(state, variant, variant - 1);
        if (variant > 1) add_pair(state, variant, 0);
      }
    }
    rounds_ = state.rounds;
  }

  Ratio ratio(int64_t subject, int64_t reference) const {
    std::vector<double> logs;
    for (const auto& [round, speed] : speeds_[static_cast<size_t>(subject)]) {
      const auto& others = speeds_[static_cast<size_t>(reference)];
      if (const auto other = others.find(round); other != others.end()) logs.push_back(speed - other->second);
    }
    Experiment experiment;
    experiment.until = Until{};
    return ratio_of_logs(logs, standard_of(experiment));
  }
  int64_t rounds() const { return rounds_; }

 private:
  void add_pair(RoundState& state, int64_t subject, int64_t reference) const {
    const Ratio now = ratio(subject, reference);
    Pair pair{subject, reference, now.rounds, std::nullopt};
    if (now.interval) pair.half_width = std::log(now.interval->high / now.interval->low) / 2;
    state.pairs.push_back(pair);
  }

  std::vector<double> effects_;
  Noise noise_;
  double within_;
  std::vector<std::map<int64_t, double>> speeds_;  ///< by variant and round
  int64_t rounds_ = 0;
};

Simulation::Noise normal_noise(double spread) {
  return [spread](std::mt19937& random) { return std::normal_distribution(0.0, spread)(random); };
}

/// Student's t with three degrees of freedom and this standard deviation.
Simulation::Noise heavy_tails(double spread) {
  return [spread](std::mt19937& random) {
    return std::student_t_distribution(3.0)(random) * spread / std::sqrt(3.0);
  };
}

/// One run in ten is slowed down by other programs.
Simulation::Noise disturbed(double spread) {
  return [spread](std::mt19937& random) {
    const double slow =
        std::bernoulli_distribution(0.1)(random) ? std::exponential_distribution(0.2 / spread)(random) : 0;
    return std::normal_distribution(0.0, spread)(random) - slow;
  };
}

struct Case {
  const char* name;
  Simulation::Noise noise;
};

TEST(StoppingRule, TenEqualRungsAreRarelyCalledDifferent) {
  constexpr int kLadders = 60;
  for (const auto& [name, noise] :
       {Case{"normal, quiet", normal_noise(0.005)}, Case{"normal", normal_noise(0.03)},
        Case{"normal, loud", normal_noise(0.05)}, Case{"heavy tails", heavy_tails(0.04)},
        Case{"disturbed", disturbed(0.02)}}) {
    std::mt19937 random(1);
    int different = 0, rungs = 0, alike = 0;
    for (int i = 0; i < kLadders; ++i) {
      Simulation ladder(std::vector<double>(11, 0), noise, 0.03);
      ladder.run(random);
      for (int64_t rung = 1; rung <= 10; ++rung, ++rungs) {
        const Ratio previous = ladder.ratio(rung, rung - 1), base = ladder.ratio(rung, 0);
        different += previous.claim() || base.claim();
        alike += verdict_of(previous).outcome == Outcome::alike;
      }
    }
    EXPECT_LE(different, rungs * 5 / 100) << name;
    EXPECT_GE(alike, rungs * 85 / 100) << name << ": it ended too early";
  }
}

TEST(StoppingRule, FindsThreePercent) {
  constexpr int kLadders = 30;
  for (const auto& [name, noise] :
       {Case{"normal", normal_noise(0.02)}, Case{"heavy tails", heavy_tails(0.02)},
        Case{"disturbed", disturbed(0.01)}}) {
    std::mt19937 random(2);
    int found = 0, planted = 0;
    for (int i = 0; i < kLadders; ++i) {
      Simulation ladder({0, std::log(1.03), 0, -std::log(1.03), 0, std::log(1.03)}, noise, 0.02);
      ladder.run(random);
      for (const auto& [rung, outcome] :
           {std::pair(1, Outcome::faster), std::pair(3, Outcome::slower), std::pair(5, Outcome::faster)}) {
        ++planted;
        found += verdict_of(ladder.ratio(rung, rung - 1)).outcome == outcome;
      }
    }
    EXPECT_GE(found, planted * 80 / 100) << name;
  }
}

/// Five runs that start in 2 s. A step of the base takes 1 s, steps of the others take less.
PaceState short_of_time(double seconds_left) {
  PaceState state{.seconds_left = seconds_left, .rounds = 2, .costs = {}, .leaves_first = {3, 1, 4, 2}};
  for (int64_t variant = 0; variant < 5; ++variant)
    state.costs[variant] = {.start = 2, .step = 1 - 0.1 * static_cast<double>(variant), .steps = 20};
  return state;
}

TEST(Pace, AllStepsAreKeptIfTheyFit) {
  // Two rounds: five starts of 2 s, and 20 steps of 1, 0.9, 0.8, 0.7 and 0.6 s.
  EXPECT_EQ(pace_of(short_of_time(180.001)).steps, 20);
  EXPECT_NEAR(pace_of(short_of_time(180.001)).seconds, 180, 1e-9);
  EXPECT_FALSE(pace_of(short_of_time(180.001)).shortens(short_of_time(180.001)));
}

TEST(Pace, StepsAreReducedBeforeRungs) {
  const Pace shorter = pace_of(short_of_time(100.001));
  EXPECT_EQ(shorter.steps, 10) << "20 s of starts, 8 s a step";
  EXPECT_THAT(shorter.left_out, IsEmpty());
  EXPECT_TRUE(shorter.shortens(short_of_time(100.001)));
  EXPECT_EQ(pace_of(short_of_time(52.001)).steps, kFewestSteps);
  const Pace fewer = pace_of(short_of_time(51));
  EXPECT_THAT(fewer.left_out, ElementsAre(3)) << "the first that is left out";
  EXPECT_EQ(fewer.steps, 5) << "the others use the remaining time: 16 s of starts, 6.6 s a step";
  const Pace two = pace_of(short_of_time(24));
  EXPECT_THAT(two.left_out, ElementsAre(3, 1, 4)) << "the base is never left out";
  EXPECT_EQ(two.steps, 4) << "8 s of starts, 3.6 s a step";
}

TEST(Pace, NothingIsShortenedIfFewerThanTwoRungsFit) {
  const Pace none = pace_of(short_of_time(20));
  EXPECT_FALSE(none.fits);
  EXPECT_EQ(none.steps, 20);
  EXPECT_THAT(none.left_out, IsEmpty());
}

TEST(Pace, RunsThatCannotBeShortenedCountWhole) {
  PaceState state = short_of_time(100.001);
  state.costs[4].whole = true;  // 28 s in both rounds
  EXPECT_EQ(pace_of(state).steps, 8) << "28 s of its runs, 16 s of starts, 6.8 s a step";
}

TEST(Pace, ShorteningDoesNotAddFalseClaims) {
  // Ten equal rungs. The best of round 1 run twice more, with fewer steps and twice the noise.
  constexpr int kLadders = 3000;
  Experiment open;
  open.until = Until{};
  for (const size_t kept : {size_t{1}, size_t{3}, size_t{10}}) {
    std::mt19937 random(3);
    const auto draw = [&](double spread) { return std::normal_distribution(0.0, spread)(random); };
    size_t claims = 0;
    for (int ladder = 0; ladder < kLadders; ++ladder) {
      std::vector<std::vector<double>> rungs(10);
      const std::vector<double> base = {draw(0.01), draw(0.02), draw(0.02)};
      for (auto& rung : rungs)
        for (size_t round = 0; round < 3; ++round)
          rung.push_back(draw(round == 0 ? 0.01 : 0.02) - base[round]);
      std::ranges::sort(rungs, std::greater(), [](const auto& rung) { return rung.front(); });
      for (size_t i = 0; i < kept; ++i) claims += ratio_of_logs(rungs[i], standard_of(open)).claim();
    }
    EXPECT_LE(static_cast<double>(claims), 0.03 * static_cast<double>(kept) * kLadders)
        << kept << " were kept";
  }
}
}  // namespace
}  // namespace optrush
