// What runs next: a table of courses, each a list of the actions of next().
#include "launch/ledger/next.h"

#include <gmock/gmock.h>

#include "job_fixture.h"
#include "launch/schedule/time_limit.h"
#include "ledger_fixture.h"

namespace optrush {
namespace {
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Not;

class NextTest : public testing::LedgerTest {
 protected:
  /// The course after planning.
  static std::vector<std::string> after_plans(std::vector<std::string> course) {
    EXPECT_GE(course.size(), 2U);
    course.erase(course.begin(), course.begin() + 2);
    return course;
  }
  static Experiment open(const std::vector<std::string>& rungs, double at_most_s = 600) {
    Experiment e = experiment(rungs);
    e.until = Until{.within = 0.03, .at_most_s = at_most_s};
    for (Rung& rung : e.parts.front().rungs) rung.over = "base";
    return e;
  }
  static size_t rounds_in(const std::vector<std::string>& course) {
    return static_cast<size_t>(std::ranges::count_if(
        course, [](const std::string& action) { return action.starts_with("round "); }));
  }
};

TEST_F(NextTest, RoundsOfAFixedNumber) {
  EXPECT_THAT(course(experiment({"a"}, 2), request()),
              ElementsAre("inspect", "plan", "round 1", "run 00-base-r1", "run 01-a-r1", "gate", "round 2",
                          "run 00-base-r2", "run 01-a-r2", "over", "last gate", "run 00-base-drift", "stop"));
}

TEST_F(NextTest, OneRoundDecidesTheGateAtOnce) {
  EXPECT_THAT(after_plans(course(experiment({"a"}), request())),
              ElementsAre("round 1", "run 00-base-r1", "run 01-a-r1", "last gate", "over", "last gate",
                          "run 00-base-drift", "stop"));
}

TEST_F(NextTest, NoiseIsProbedBeforeTheFirstAndAfterEachRound) {
  RunRequest probing = request();
  probing.probe_s = 1;
  EXPECT_THAT(after_plans(course(experiment({"a"}, 2), probing)),
              ElementsAre("round 1", "probe 0", "run 00-base-r1", "run 01-a-r1", "probe 1", "gate", "round 2",
                          "run 00-base-r2", "run 01-a-r2", "probe 2", "over", "last gate",
                          "run 00-base-drift", "stop"));
  probing.resume = true;
  EXPECT_THAT(course(experiment({"a"}, 2), probing), Not(Contains(HasSubstr("probe"))))
      << "nothing is left to run";
}

TEST_F(NextTest, FailedRungIsNotRunAgain) {
  EXPECT_THAT(after_plans(course(experiment({"a", "b"}, 2), request(), {.ends = {{"01-a-r1", Status::oom}}})),
              ElementsAre("round 1", "run 00-base-r1", "run 01-a-r1", "run 02-b-r1", "gate", "round 2",
                          "run 00-base-r2", "run 02-b-r2", "over", "last gate", "run 00-base-drift", "stop"));
  EXPECT_THAT(notes_, ElementsAre("a is left out of the remaining rounds"));
  EXPECT_EQ(reason("01-a-r2"), "not run: round 1 ended as 'oom'");
  EXPECT_THAT(after_plans(course(experiment({"a", "b"}, 2), resuming())),
              ElementsAre("round 1", "gate", "round 2", "over", "last gate", "stop"))
      << "its failure counts";
  RunRequest again = resuming();
  again.retry = true;
  EXPECT_THAT(
      after_plans(course(experiment({"a", "b"}, 2), again)),
      ElementsAre("round 1", "run 01-a-r1", "gate", "round 2", "run 01-a-r2", "over", "last gate", "stop"));
  EXPECT_THAT(notes_, ElementsAre("01-a-r1 is rerun: it ended as 'oom'"));
}

TEST_F(NextTest, RungWithoutAPlanIsNotRun) {
  EXPECT_THAT(after_plans(course(experiment({"a", "b"}), request(), {.unplanned = {"a"}})),
              ElementsAre("round 1", "run 00-base-r1", "run 02-b-r1", "last gate", "over", "last gate",
                          "run 00-base-drift", "stop"));
  EXPECT_THAT(after_plans(course(experiment({"a"}), request(), {.unplanned = {"base", "a"}})),
              ElementsAre("round 1", "last gate", "over", "last gate", "stop"));
}

TEST_F(NextTest, OnlyTheWantedRungsAndTheBase) {
  RunRequest only = request();
  only.only = {"b"};
  EXPECT_THAT(after_plans(course(experiment({"a", "b"}), only)),
              ElementsAre("round 1", "run 00-base-r1", "run 02-b-r1", "last gate", "over", "last gate",
                          "run 00-base-drift", "stop"));
}

TEST_F(NextTest, InterruptedRoundIsCompleted) {
  const Experiment e = experiment({"a", "b"}, 2);
  course(e, request(), {.killed_before = "run 01-a-r2"});
  EXPECT_THAT(after_plans(course(e, resuming())),
              ElementsAre("round 1", "gate", "round 2", "run 01-a-r2", "run 02-b-r2", "over", "last gate",
                          "run 00-base-drift", "stop"));
}

TEST_F(NextTest, GateRunsFollowTheFirstRound) {
  Experiment e = experiment({"wider"}, 2);
  e.parts[0].rungs[0].settings = {{"train", {{"micro_batch", 8}}}};
  const std::vector<std::string> expected = {"round 1",
                                             "run 00-base-r1",
                                             "run 01-wider-r1",
                                             "gate",
                                             "gate run 01-wider-reference",
                                             "round 2",
                                             "run 00-base-r2",
                                             "run 01-wider-r2",
                                             "over",
                                             "last gate",
                                             "run 00-base-drift",
                                             "stop"};
  EXPECT_THAT(after_plans(course(e, request())), ElementsAreArray(expected));
  std::filesystem::remove(report() / "runs/01-wider-reference/result.json");
  EXPECT_THAT(
      after_plans(course(e, resuming())),
      ElementsAre("round 1", "gate", "gate run 01-wider-reference", "round 2", "over", "last gate", "stop"));
}

TEST_F(NextTest, RunsOfAGroupAreInterleaved) {
  Experiment e = experiment({"a", "b"}, 2);
  e.interleave = Interleave::on;
  EXPECT_THAT(after_plans(course(e, request(), {.ends = {{"02-b-r1", Status::oom}}})),
              ElementsAre("round 1", "group 00-base-r1 01-a-r1 02-b-r1", "run 02-b-r1", "gate", "round 2",
                          "group 00-base-r2 01-a-r2", "over", "last gate", "stop"))
      << "a run that was out of memory beside others runs alone";
  std::filesystem::remove(report() / "runs/01-a-r2/result.json");
  EXPECT_THAT(
      after_plans(course(e, resuming())),
      ElementsAre("round 1", "gate", "round 2", "group 00-base-r2 01-a-r2", "over", "last gate", "stop"))
      << "a group is repeated";
  EXPECT_THAT(notes_, Contains(HasSubstr("1 completed runs of round 2 are rerun")));
  EXPECT_TRUE(std::filesystem::exists(report() / "replaced/00-base-r2/result.json"));
}

TEST_F(NextTest, OpenRoundsEndWhenTheIntervalsAreNarrow) {
  const auto made = course(open({"a"}), request());
  EXPECT_EQ(rounds_in(made), kLeastRounds);
  EXPECT_THAT(made, Contains("run 00-base-drift"));
}

TEST_F(NextTest, BegunRoundIsCompletedBeforeAnother) {
  const Experiment e = open({"a", "b"});
  course(e, request(), {.killed_before = "run 01-a-r3"});
  const auto made = after_plans(course(e, resuming()));
  EXPECT_THAT(
      std::vector(made.begin(), made.begin() + 6),
      ElementsAre("round 1", "gate", "round 2, limited", "round 3, limited", "round 4", "run 00-base-r4"))
      << "only the runs that had begun belong to the round";
}

TEST_F(NextTest, TightLimitShortensRunsAndLeavesOutTheDriftRun) {
  const auto made = course(open({"a"}, 70), request(), {.step_seconds = 1});
  EXPECT_THAT(made, Not(Contains("run 00-base-drift")));
  EXPECT_EQ(rounds_in(made), 3U);
  EXPECT_THAT(made, Contains("round 2, limited"));
  EXPECT_THAT(made, Contains("round 3, limited"));
}

TEST_F(NextTest, NoRoundBeginsAfterTheLimit) {
  EXPECT_THAT(after_plans(course(open({"a"}, 30), request(), {.step_seconds = 1})),
              ElementsAre("round 1", "run 00-base-r1, in turns", "run 01-a-r1, in turns", "gate", "over",
                          "last gate", "stop"));
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("no comparison will be decided")));
}

TEST_F(NextTest, RaceStopsDecidedRungs) {
  Experiment race = open({"ahead", "equal"});
  race.until->race = true;
  const auto made = course(race, request(), {.change = [](const Job& job, RunResult& result) {
                             const double noise = job.spec.round % 2 == 0 ? 1.02 : 0.98;
                             if (job.spec.variant == 1) *result.tokens_per_second *= 1.5;
                             if (job.spec.variant == 2) *result.tokens_per_second *= noise;
                           }});
  EXPECT_THAT(made, Contains("run 01-ahead-r4"));
  EXPECT_THAT(made, Not(Contains(HasSubstr("run 01-ahead-r5"))));
  EXPECT_THAT(made, Contains(HasSubstr("run 02-equal-r5")));
  EXPECT_THAT(course(race, resuming()), Not(Contains(HasSubstr("run ")))) << "an ended race is not continued";
}

TEST_F(NextTest, NoDriftRunAfterAShortenedRun) {
  EXPECT_THAT(course(experiment({"a"}), request(),
                     {.change = [](const Job&, RunResult& result) { result.cut = "time limit"; }}),
              Not(Contains("run 00-base-drift")));
}

TEST_F(NextTest, RunsThatAreWantedWholeAreNotLimited) {
  Experiment e = open({"a"});
  e.target_loss = 1;
  EXPECT_THAT(course(e, request()), Not(Contains(HasSubstr("in turns"))));
}

TEST_F(NextTest, RunsOfARaceToALossCanEndBetweenSteps) {
  Experiment e = experiment({"a"});
  e.target_loss = 1;
  e.stop_behind = 1.5;
  EXPECT_THAT(course(e, request()), Contains("run 01-a-r1, in turns"));
}

TEST_F(NextTest, EachRoundHasItsSeed) {
  Experiment e = experiment({"a"}, 3);
  e.seeds = {7, 9, 8};
  e.base.train.seed = 7;
  std::vector<uint64_t> seeds;
  const auto note_seed = [&](const Job& job, RunResult&) { seeds.push_back(job.spec.train.seed); };
  course(e, request(), {.change = note_seed, .killed_before = "round 3"});
  EXPECT_THAT(seeds, ElementsAre(7, 7, 9, 9));
  seeds.clear();
  course(e, resuming(), {.change = note_seed});
  EXPECT_THAT(seeds, ElementsAre(8, 8, 7))
      << "the stored rounds are complete; the last run has the first seed";
}

TEST_F(NextTest, GpuIsOpenedForTheNextRun) {
  Experiment e = experiment({"a"});
  Expanded expanded(e);
  const RunRequest fresh = request();
  Ledger ledger(expanded, fresh);
  ledger.describe(Json::object());
  make_plans(ledger);
  for (auto& plan : ledger.outline().plans)
    plan->memory = PlannedMemory{.reserved = 1e9, .available = 4e9, .device = "cuda"};
  ledger.begin_round(std::get<BeginRound>(next(ledger, fresh, {})).round);
  const auto first = std::get<RunOne>(next(ledger, fresh, {}));
  EXPECT_TRUE(first.in_turns);
  EXPECT_EQ(first.prepared.value().id, "01-a-r1");
  ledger.start(first.job);
  ledger.finish(first.job, ok_result(first.job));
  EXPECT_FALSE(std::get<RunOne>(next(ledger, fresh, {})).prepared) << "it is the last of the round";
}

class NextOfAJob : public testing::JobTest {};

TEST_F(NextOfAJob, RanksOfOtherProcessesAreNotInterleaved) {
  RemoteRanks remote_ranks(place(0), "sha", secret_);
  RunRequest launched = request();
  launched.remote_ranks = &remote_ranks;
  for (const auto& [ranks, interleaved] : {std::pair(1, true), std::pair(3, false)}) {
    Experiment e = experiment({"a"});
    e.interleave = Interleave::on;
    e.label = std::to_string(ranks);
    e.base.train.world_size = ranks;
    const Expanded expanded(e);
    Ledger ledger(expanded, launched);
    ledger.describe(Json::object());
    for (auto& plan : ledger.outline().plans) plan = Plan{.problem = e.base.train};
    ledger.plan({});
    ledger.begin_round(std::get<BeginRound>(optrush::next(ledger, launched, {})).round);
    EXPECT_EQ(std::holds_alternative<RunGroup>(optrush::next(ledger, launched, {})), interleaved) << ranks;
  }
}
}  // namespace
}  // namespace optrush
