// Checks every opening sentence of a report against its table. Experiments are random: rungs gain, cost,
// fail, break, tie or lack rounds, on several ranks, with a target loss, with other programs.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "findings/reader.h"
#include "random_report.h"
#include "report/claims/claims.h"

namespace optrush {
namespace {
using test::Dice;
using test::draw_outcome;
using test::kNames;
using test::random_report;
using test::read_findings;
using test::rung;
using test::setting;

TEST(Findings, MatchTheTable) {
  constexpr uint64_t kTables = 150;
  for (uint64_t seed = 0; seed < kTables && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Analysis a = test::analysis_of(random_report(seed));
    read_findings(a);
  }
}

/// Two parallel strategies on one to four ranks, with weak or strong scaling. Some rungs fail.
test::SyntheticReport random_scaling(uint64_t seed) {
  Dice dice(seed);
  test::SyntheticReport report("ranks", dice.of(std::vector<int64_t>{1, 3, 3, 5}));
  if (dice.in(3)) report.experiment.until = Until{.within = 0.03, .at_most_s = 100};
  std::vector<Rung> rungs;
  size_t names = 0;
  if (dice.in(2)) rungs.push_back(rung(kNames[names++], "flash_attention"));
  const std::string below = rungs.empty() ? "base" : rungs.front().name;
  for (const char* plugin : {"spread", "shard"}) {
    const bool weak = dice.in(2);
    for (const int64_t ranks : {2, 4}) {
      if (ranks == 4 && dice.in(4)) continue;
      Rung made = setting(kNames[names++],
                          {{"train", {{"world_size", ranks}, {"micro_batch", weak ? 4 : 4 / ranks}}}});
      made.plugins = {{plugin, Json::object()}};
      made.over = below;
      rungs.push_back(made);
    }
  }
  report.ladder(rungs);
  const bool on_cores = dice.in(3);
  for (const Variant& variant : expand(report.experiment)) {
    if (variant.index == 0) continue;
    test::Outcome& outcome = report[variant.name];
    draw_outcome(outcome, report.experiment.rounds, dice);
    const auto ranks = static_cast<double>(variant.spec.train.world_size);
    outcome.tokens_per_second *= 1 + (ranks - 1) * dice.between(0.2, 0.95);
    outcome.exposed_share = dice.between(0, 0.6);
    if (on_cores) outcome.threads = 1 + dice.up_to(2);
  }
  return report;
}

/// An experiment with a target loss. Its rungs reach it in all rounds, in some, or never.
Analysis with_random_times(uint64_t seed) {
  Dice dice(seed);
  test::SyntheticReport report = random_report(seed);
  report.experiment.target_loss = 2.5;
  Analysis a = test::analysis_of(report);
  const bool validated = dice.in(2), short_runs = dice.in(10);
  const auto equal_steps = dice.in(3) ? 90 : 0;
  for (Row& row : a.rows) {
    row.time_to_loss.reset();
    if (!row.ok() || row.samples.empty()) continue;
    TimeToLoss& its = row.time_to_loss.emplace();
    its = {.enough_steps = !short_runs, .validated = validated, .last = dice.between(2.51, 3.5)};
    if (short_runs || dice.in(3)) {
      its.in_some_rounds = !short_runs && dice.in(4);
      continue;
    }
    its.steps = equal_steps > 0 ? equal_steps : 10 * (1 + dice.up_to(20));
    its.seconds = dice.of(std::vector{0.01, 1.0, 60.0}) * dice.between(1, 60);
    its.last = dice.between(2.0, 2.5);
  }
  return a;
}

TEST(Findings, FindingsOfScalingMatchTheTable) {
  for (uint64_t seed = 0; seed < 100 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Analysis a = test::analysis_of(random_scaling(seed));
    read_findings(a);
  }
}

TEST(Findings, FindingsOfTheLossMatchTheTable) {
  for (uint64_t seed = 0; seed < 150 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Analysis a = with_random_times(seed);
    read_findings(a);
  }
}

/// Some search stages: the first over "base", each later one over the best stack so far.
Tried random_search(Dice& dice) {
  const int64_t rounds = 1 + dice.up_to(5);
  TriedStage stage{"base", {}};
  for (int i = 0; i < 1 + dice.up_to(5); ++i) {
    const std::string name = kNames[static_cast<size_t>(i)];
    const double speed = dice.between(0.7, 1.9);
    const bool faster = rounds >= 3 && speed > 1.05;
    stage.stacks.push_back({.stack = name,
                            .change = "+ " + name,
                            .speed = dice.in(5) ? std::nullopt : std::optional(speed),
                            .rounds = rounds,
                            .faster = faster,
                            .result = faster ? "1.21x [1.18, 1.24], faster" : "1.01x [0.98, 1.04]"});
  }
  Tried search{.best = "base", .finished = dice.in(2), .stages = {stage}};
  for (const TriedStack& each : stage.stacks)
    if (each.faster && each.speed && !dice.in(4)) search.best = each.stack;
  if (rounds < 3) {
    search.answered = search.finished = false;
    search.decides_s = dice.between(1, 4000);
  }
  return search;
}

TEST(Findings, FindingsOfASearchMatchItsStages) {
  Analysis a = test::analysis_of(test::three_rungs());
  for (uint64_t seed = 0; seed < 300 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Dice dice(seed);
    a.tried = random_search(dice);
    SCOPED_TRACE(record::written(a.tried).dump(1));
    read_findings(a);
  }
}

/// Expects the reader to fail.
void expect_rejected(const Analysis& a, const std::string& finding, const std::string& headline) {
  ::testing::TestPartResultArray failures;
  {
    const ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    test::read(a, {finding}, headline);
  }
  EXPECT_GT(failures.size(), 0) << finding << "\n" << headline;
}

TEST(Findings, ReaderRejectsFalseStatements) {
  const Analysis a = test::analysis_of(test::three_rungs());
  for (const char* wrong :
       {"three (9.99x [9.00, 9.99]) makes training faster.", "No rung is shown to make training faster.",
        "One crashed.", "one trains 1,500 tokens/s, 1.00x [0.99, 1.01] as fast as the base.", "All is well."})
    expect_rejected(a, wrong, headline(a));
}

TEST(Findings, ReaderRejectsFalseHeadlines) {
  auto report = test::three_rungs();
  report["one"].tokens_per_second = 1500;
  report["two"].tokens_per_second = 1500;
  report["three"].tokens_per_second = 1400;
  const Analysis a = test::analysis_of(report);
  read_findings(a);
  ASSERT_FALSE(HasFailure()) << headline(a);
  for (const char* wrong :
       {"the stack up to three trains 1,400 tokens/s, 1.50x as fast as the base",
        "one trains 1,500 tokens/s, 1.40x as fast as the base, with 16 % less memory",
        "two (1.00x) gains most", "two is undecided", "three (0.93x, 60 % less memory) makes training slower",
        "the stack up to three takes 512 MiB, 60 % less memory than the base", "two ran out of memory",
        "two trains worse than one", "no rung is shown to make training faster", "all is well"})
    expect_rejected(a, findings(a).front(), std::string("On Synthetic device (2 cores), ") + wrong + ".");
  expect_rejected(a, findings(a).front(), "On another device, one gains most.");
}
}  // namespace
}  // namespace optrush
