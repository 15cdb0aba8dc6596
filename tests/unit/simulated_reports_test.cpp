// How often a whole report is wrong: reports with drawn speeds, judged as `optrush report` judges them.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <random>

#include "analysis/analysis.h"
#include "analysis/numbers/verdict.h"
#include "base/temporary_folder.h"
#include "report_fixture.h"

namespace optrush {
namespace {
constexpr int64_t kFewest = 3, kMost = 8;  ///< rounds
constexpr double kSpread = 0.01;           ///< standard deviation of a run's speed, as a logarithm

std::vector<Rung> ten_rungs() {
  std::vector<Rung> rungs;
  for (int i = 1; i <= 10; ++i)
    rungs.push_back(test::rung("rung " + std::to_string(i), "part_" + std::to_string(i)));
  return rungs;
}

Stored stored(Arrangement arrangement) {
  test::SyntheticReport report("ten rungs", kMost);
  report.experiment.base.train.warmup = report.experiment.base.train.steps = 1;
  const auto rungs = ten_rungs();
  if (arrangement == Arrangement::grid)  // of ten combinations
    report.experiment.parts.push_back(
        {.arrangement = arrangement,
         .rungs = {},
         .axes = {{rungs.begin(), rungs.begin() + 2}, {rungs.begin() + 2, rungs.begin() + 7}}});
  else
    report.experiment.parts.push_back({.arrangement = arrangement, .rungs = rungs, .axes = {}});
  const TemporaryFolder folder;
  report.write(folder.path());
  return load_report(folder.path(), ResultParts{});
}

double gauss(std::mt19937& random) { return std::normal_distribution(0.0, kSpread)(random); }
/// Student's t with three degrees of freedom.
double student_t(std::mt19937& random) {
  return std::student_t_distribution(3.0)(random) * kSpread / std::sqrt(3.0);
}

/// Draws the speeds of all runs. The machine drifts from round to round. From variant `from` on, all are
/// faster by `effect`.
Stored drawn(Stored stored, int64_t rounds, double (*noise)(std::mt19937&), std::mt19937& random,
             int64_t from = 0, double effect = 0) {
  stored.experiment.rounds = rounds;
  std::erase_if(stored.runs, [&](const StoredRun& run) { return run.spec.round >= rounds; });
  std::vector<double> machine;
  for (int64_t round = 0; round < rounds; ++round)
    machine.push_back(std::normal_distribution(-0.005, 0.02)(random) + (round > 0 ? machine.back() : 0));
  for (StoredRun& run : stored.runs)
    if (run.result.tokens_per_second)
      run.result.tokens_per_second = 1000 * std::exp(machine[static_cast<size_t>(run.spec.round)] +
                                                     noise(random) + (run.spec.variant >= from ? effect : 0));
  return stored;
}

bool claims(const Analysis& a) {
  return std::ranges::any_of(a.rows, [](const Row& row) {
    return (row.previous.speed && row.previous.speed->claim()) || (row.base.speed && row.base.speed->claim());
  });
}

TEST(SimulatedReports, AtMostOneInTwentyOfEqualRungsClaimsAnything) {
  constexpr int kReports = 170;
  for (const Arrangement arrangement : {Arrangement::ladder, Arrangement::ablation, Arrangement::grid}) {
    const Stored same = stored(arrangement);
    for (const auto noise : {gauss, student_t}) {
      std::mt19937 random(1);
      int wrong = 0, compared = 0;
      for (int i = 0; i < kReports; ++i) {
        const Analysis a = analyze(drawn(same, kFewest + i % (kMost - kFewest + 1), noise, random));
        wrong += claims(a);
        compared += static_cast<int>(
            std::ranges::count_if(a.rows, [](const Row& row) { return row.base.speed.has_value(); }));
      }
      EXPECT_GE(compared, 10 * kReports);
      EXPECT_LE(wrong, kReports / 20);
      std::cout << wrong << " of " << kReports << " reports claim something\n";
    }
  }
}

TEST(SimulatedReports, ThreePercentIsFound) {
  constexpr int kReports = 100;
  const Stored same = stored(Arrangement::ladder);
  for (const auto& [rounds, least] : {std::pair(3, 15), std::pair(5, 60), std::pair(8, 85)}) {
    std::mt19937 random(2);
    int found = 0;
    for (int i = 0; i < kReports; ++i) {
      const Analysis a = analyze(drawn(same, rounds, gauss, random, 5, std::log(1.03)));
      found += verdict_of(*test::row(a, "rung 5").previous.speed).outcome == Outcome::faster;
    }
    std::cout << rounds << " rounds: 3 % found in " << found << " of " << kReports << " reports\n";
    EXPECT_GE(found, least);
  }
}
}  // namespace
}  // namespace optrush
