// Rounds until every interval is narrow or the time is over.
#include <gmock/gmock.h>

#include "fixture.h"
#include "launch/controller.h"
#include "report/claims/claims.h"
#include "report/sections/document.h"
#include "report/writers/writers.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class OpenRounds : public testing::Launch {
 protected:
  static Experiment open(const std::vector<std::string>& rungs) {
    Experiment e = experiment(rungs);
    e.until = Until{.within = 0.03, .at_most_s = 600};
    return e;
  }
  int64_t rounds_of(const std::string& rung) const {
    return std::ranges::count_if(starts(),
                                 [&](const std::string& id) { return id.starts_with(rung + "-r"); });
  }
};

TEST_F(OpenRounds, ContinueUntilEveryIntervalIsNarrow) {
  run(open({"a", "b", "noisy"}));
  EXPECT_EQ(rounds_of("01-a"), 6) << "the minimum, since nothing scatters";
  EXPECT_GT(rounds_of("03-noisy"), 6);
  EXPECT_EQ(rounds_of("00-base"), rounds_of("03-noisy")) << "pairs need rounds of both";
  EXPECT_EQ(rounds_of("02-b"), rounds_of("03-noisy"));
  EXPECT_EQ(starts().back(), "00-base-drift");
  const Analysis a = analyze(load_report(report()));
  EXPECT_EQ(a.missing_runs, 0U);
  const Ratio& speed = *a.rows[3].base.speed;
  EXPECT_LE(std::log(speed.interval->high / speed.interval->low) / 2, 0.03);
}

TEST_F(OpenRounds, RaceContinuesOnlyForRungsThatCanStillWin) {
  Experiment race = open({"noisy", "ahead", "behind"});
  race.until->race = true;
  for (Rung& rung : race.parts.front().rungs) rung.over = "base";
  run(race);
  EXPECT_EQ(rounds_of("02-ahead"), 4);
  EXPECT_EQ(rounds_of("03-behind"), 4);
  EXPECT_GT(rounds_of("01-noisy"), 6);
  EXPECT_EQ(rounds_of("00-base"), rounds_of("01-noisy"));
}

TEST_F(OpenRounds, FinishedRaceIsNotContinued) {
  Experiment race = open({"noisy", "ahead"});
  race.until->race = true;
  for (Rung& rung : race.parts.front().rungs) rung.over = "base";
  race.until->at_most_s = 0.001;
  run(race);
  EXPECT_EQ(rounds_of("01-noisy"), 1) << "the time was over";
  race.until->at_most_s = 600;
  run(race, resuming());
  EXPECT_GT(rounds_of("01-noisy"), 3) << "without a claim it needs more rounds";
  run(race, resuming());
  EXPECT_THAT(starts(), IsEmpty());
  fs::remove(report() / "runs/01-noisy-r1/result.json");
  run(race, resuming());
  EXPECT_GT(rounds_of("01-noisy"), 0) << "a missing run is made";
}

TEST_F(OpenRounds, CountEqualStacksOnce) {
  run(ladder_and_ablation(open({})));
  EXPECT_EQ(rounds_of("01-a"), 6);
  EXPECT_EQ(rounds_of("04-without-a"), 6);
  EXPECT_EQ(rounds_of("03-full") + rounds_of("05-without-b") + rounds_of("06-a-alone"), 0);
}

TEST_F(OpenRounds, EndWhenTheTimeIsOver) {
  Experiment e = open({"a"});
  e.until->at_most_s = 0.001;
  run(e);
  EXPECT_THAT(starts(), ElementsAre("00-base-r1", "01-a-r1")) << "there is no time for the drift run";
}

/// Time limits with simulated time: runs report a second for each step, and no time passes.
class ShortOfTime : public OpenRounds {
 protected:
  ShortOfTime() { setenv("FAKE_STEP_SECONDS", "1", 1); }
  ~ShortOfTime() override { unsetenv("FAKE_STEP_SECONDS"); }
  static Experiment within(double seconds, const std::vector<std::string>& rungs) {
    Experiment e = open(rungs);
    e.until->at_most_s = seconds;
    e.base.train.steps = 40;
    for (Rung& rung : e.parts.front().rungs) rung.over = "base";
    return e;
  }
  int64_t timed(const std::string& id) const { return std::ssize(result(id).at("steps")) - 3; }
  std::string cut(const std::string& id) const { return result(id).value("cut", ""); }
  std::string finding() const { return finding_text(analyze(load_report(report()))); }
};

TEST_F(ShortOfTime, LongLimitShortensNothing) {
  run(within(1000, {"a"}));
  for (const char* id : {"00-base-r1", "01-a-r1", "01-a-r2", "01-a-r3"}) {
    EXPECT_EQ(timed(id), 40) << id;
    EXPECT_EQ(cut(id), "") << id;
  }
  EXPECT_EQ(starts().back(), "00-base-drift");
}

TEST_F(ShortOfTime, RunsMakeFewerStepsToFitThreeRounds) {
  run(within(120, {"a", "b"}));
  // Three rounds of three runs: 12 steps and the starts fit into 114 s.
  EXPECT_THAT(timed("00-base-r1"), ::testing::AllOf(::testing::Ge(9), ::testing::Le(12)));
  EXPECT_EQ(cut("00-base-r1"), "time limit");
  // Then two rounds of 3 + n steps each fit into the remaining time. The second takes half of the gain.
  EXPECT_THAT(timed("00-base-r2"), ::testing::AllOf(::testing::Ge(9), ::testing::Le(13)));
  EXPECT_GT(timed("00-base-r3"), timed("00-base-r2"));
  for (const char* round : {"-r1", "-r2", "-r3"})
    for (const char* rung : {"01-a", "02-b"})
      EXPECT_EQ(timed(std::string(rung) + round), timed(std::string("00-base") + round))
          << "all runs of a round make the same number of steps";
  EXPECT_THAT(finding(), Not(HasSubstr("o claim")));
  EXPECT_THAT(starts(), Not(Contains("00-base-drift")));
}

TEST_F(ShortOfTime, RungsWithTheLeastGainAreLeftOut) {
  run(within(40, {"behind", "ahead"}));
  EXPECT_EQ(rounds_of("01-behind"), 1);
  EXPECT_GE(rounds_of("02-ahead"), 3);
  EXPECT_GE(rounds_of("00-base"), 3);
  EXPECT_THAT(finding(), HasSubstr("ahead trains "));
  EXPECT_THAT(finding(), HasSubstr("No claim on behind (0.72x as fast as base in 1 round): about "));
  const std::string text = markdown(make_document(analyze(load_report(report()))), {});
  EXPECT_THAT(text, HasSubstr("those that gained least in the first rounds are left out."));
  EXPECT_THAT(text, HasSubstr("These rungs have fewer than 3 rounds: behind."));
}

TEST_F(ShortOfTime, BestSoFarIsNamedWithoutAClaim) {
  run(within(20, {"behind", "ahead"}));
  EXPECT_EQ(rounds_of("00-base"), 1);
  EXPECT_THAT(finding(), HasSubstr("nearest to a gain so far: ahead (1.34x as fast as base in 1 round)"));
  EXPECT_THAT(finding(), HasSubstr("No claim on speed yet: a claim needs 3 rounds; about "));
  EXPECT_THAT(finding(), HasSubstr("more would allow a claim (--resume --at-most "));
}

TEST_F(ShortOfTime, ResumeKeepsTheLengthOfShortenedRuns) {
  run(within(120, {"a", "b"}));
  const int64_t steps = timed("00-base-r2");
  run(within(120, {"a", "b"}), resuming());
  EXPECT_THAT(starts(), IsEmpty());
  fs::remove(report() / "runs/02-b-r2/result.json");
  run(within(120, {"a", "b"}), resuming());
  EXPECT_THAT(starts(), ElementsAre("02-b-r2"));
  EXPECT_EQ(timed("02-b-r2"), steps);
}

TEST_F(ShortOfTime, RunsWithATargetLossAreNotShortened) {
  Experiment e = within(60, {"a"});
  e.target_loss = 0.5;
  run(e);
  EXPECT_EQ(timed("01-a-r1"), 40);
}

TEST_F(OpenRounds, ResumeContinuesFromStoredRounds) {
  run(open({"a", "noisy"}));
  const auto all = rounds_of("02-noisy");
  run(open({"a", "noisy"}), resuming());
  EXPECT_THAT(starts(), IsEmpty()) << "all intervals are narrow";
  // As after an interrupt in the fourth round.
  for (int64_t round = 5; round <= all; ++round)
    for (const char* rung : {"00-base", "01-a", "02-noisy"})
      fs::remove_all(report() / "runs" / (rung + ("-r" + std::to_string(round))));
  fs::remove(report() / "runs/02-noisy-r4/result.json");
  fs::remove_all(report() / "runs/00-base-drift");
  run(open({"a", "noisy"}), resuming());
  EXPECT_EQ(starts().front(), "02-noisy-r4");
  EXPECT_EQ(rounds_of("02-noisy"), all - 3);
  EXPECT_EQ(starts().back(), "00-base-drift");
}

TEST_F(OpenRounds, FailedRungsAreNotRunAgain) {
  run(open({"a", "failed"}));
  EXPECT_EQ(rounds_of("02-failed"), 1);
  EXPECT_EQ(rounds_of("01-a"), 6);
  EXPECT_FALSE(fs::exists(report() / "runs/02-failed-r2"));
  EXPECT_EQ(analyze(load_report(report())).missing_runs, 0U);
}
}  // namespace
}  // namespace optrush
