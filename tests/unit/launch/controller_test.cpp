#include "launch/controller.h"

#include <gmock/gmock.h>

#include <unistd.h>
#include <chrono>
#include <cmath>

#include <csignal>
#include <fstream>
#include <thread>

#include "../../support/opens.h"
#include "ends.h"
#include "fixture.h"
#include "launch/folder.h"
#include "launch/journal.h"
#include "report/sections/document.h"
#include "report/writers/writers.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Controller : public testing::Launch {
 protected:
  std::vector<std::string> events(const std::string& event) const {
    std::vector<std::string> runs;
    std::istringstream lines(read_file(report() / "journal.jsonl"));
    for (std::string line; std::getline(lines, line);)
      if (const Json entry = Json::parse(line); entry.at("event") == event)
        runs.push_back(entry.value("run", ""));
    return runs;
  }
};

TEST_F(Controller, RoundsAreInterleavedAndTheBaseRunsLastAgain) {
  const auto outcome = run(experiment({"a", "b"}, 3));
  EXPECT_TRUE(outcome.all_ok);
  EXPECT_EQ(outcome.signal, 0);
  EXPECT_THAT(starts(), ElementsAre("00-base-r1", "01-a-r1", "02-b-r1", "00-base-r2", "01-a-r2", "02-b-r2",
                                    "00-base-r3", "01-a-r3", "02-b-r3", "00-base-drift"));
  EXPECT_EQ(events("started"), starts());
  EXPECT_EQ(events("finished"), starts());
}

/// A ladder of a and b, and the ablation of the same.
Experiment ladder_and_ablation(Experiment e) {
  std::vector<Rung> rungs;
  for (const char* name : {"a", "b"})
    rungs.push_back({.name = name, .settings = {{"env", {{name, "1"}}}}, .where = "fake.lua:1"});
  e.parts = {{.rungs = rungs}, {.arrangement = Arrangement::ablation, .rungs = rungs}};
  return e;
}

TEST_F(Controller, EqualStacksAreTrainedOnce) {
  const Experiment e = ladder_and_ablation(experiment({}, 2));
  EXPECT_TRUE(run(e).all_ok);
  EXPECT_THAT(starts(), ElementsAre("00-base-r1", "01-a-r1", "02-b-r1", "04-without-a-r1", "00-base-r2",
                                    "01-a-r2", "02-b-r2", "04-without-a-r2", "00-base-drift"));
  const Analysis a = analyze(load_report(report()));
  EXPECT_EQ(a.missing_runs, 0U);
  const Row &full = a.rows.at(3), &without_b = a.rows.at(5);
  EXPECT_EQ(full.samples, a.rows.at(2).samples);
  EXPECT_THAT(without_b.notes, Contains("the same run as 'a'"));
  EXPECT_FALSE(without_b.previous.speed->same_run) << "the full stack is b's run, and this one is a's";
  run(e, resuming());
  EXPECT_THAT(starts(), IsEmpty());
}

TEST_F(Controller, OnlyOfAnEqualStackRunsItWhereItsRunsAre) {
  RunRequest only = request();
  only.only = {"full"};
  run(ladder_and_ablation(experiment({})), only);
  EXPECT_THAT(starts(), ElementsAre("00-base-r1", "02-b-r1", "00-base-drift"));
  EXPECT_TRUE(analyze(load_report(report())).rows.at(3).ok());
}

TEST_F(Controller, AnEqualStackFailsAsTheOneThatRan) {
  Experiment e = ladder_and_ablation(experiment({}));
  for (auto& part : e.parts) part.rungs[1].name = "crash b";
  EXPECT_FALSE(run(e).all_ok);
  const Analysis a = analyze(load_report(report()));
  EXPECT_EQ(a.rows.at(3).status, Status::crashed);
  EXPECT_EQ(a.rows.at(3).reason, a.rows.at(2).reason);
}

class OpenRounds : public Controller {
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

TEST_F(OpenRounds, GoOnUntilEveryIntervalIsNarrow) {
  run(open({"a", "b", "noisy"}));
  EXPECT_EQ(rounds_of("01-a"), 6) << "which is the least, and nothing scatters";
  EXPECT_GT(rounds_of("03-noisy"), 6);
  EXPECT_EQ(rounds_of("00-base"), rounds_of("03-noisy")) << "pairs need both";
  EXPECT_EQ(rounds_of("02-b"), rounds_of("03-noisy"));
  EXPECT_EQ(starts().back(), "00-base-drift");
  const Analysis a = analyze(load_report(report()));
  EXPECT_EQ(a.missing_runs, 0U);
  const Ratio& speed = *a.rows[3].base.speed;
  EXPECT_LE(std::log(speed.interval->high / speed.interval->low) / 2, 0.03);
}

TEST_F(OpenRounds, OfARaceGoOnForWhoMayStillBeFaster) {
  Experiment race = open({"noisy", "ahead", "behind"});
  race.until->race = true;
  for (Rung& rung : race.parts.front().rungs) rung.over = "base";
  run(race);
  EXPECT_EQ(rounds_of("02-ahead"), 4);
  EXPECT_EQ(rounds_of("03-behind"), 4);
  EXPECT_GT(rounds_of("01-noisy"), 6);
  EXPECT_EQ(rounds_of("00-base"), rounds_of("01-noisy"));
}

TEST_F(OpenRounds, OfARaceThatCameToItsEndAreNotGoneOnWith) {
  Experiment race = open({"noisy", "ahead"});
  race.until->race = true;
  for (Rung& rung : race.parts.front().rungs) rung.over = "base";
  race.until->at_most_s = 0.001;
  run(race);
  EXPECT_EQ(rounds_of("01-noisy"), 1) << "the time was over";
  race.until->at_most_s = 600;
  run(race, resuming());
  EXPECT_GT(rounds_of("01-noisy"), 3) << "it had no claim";
  run(race, resuming());
  EXPECT_THAT(starts(), IsEmpty());
  fs::remove(report() / "runs/01-noisy-r1/result.json");
  run(race, resuming());
  EXPECT_GT(rounds_of("01-noisy"), 0) << "something of it is missing, so it is run";
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
  EXPECT_THAT(starts(), ElementsAre("00-base-r1", "01-a-r1")) << "nor is there time for the drift";
}

/// Time limits over a laboratory where a step takes a second, by what its runs say, and no time passes.
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

TEST_F(ShortOfTime, NothingIsCutWhereTheLimitIsLong) {
  run(within(1000, {"a"}));
  for (const char* id : {"00-base-r1", "01-a-r1", "01-a-r2", "01-a-r3"}) {
    EXPECT_EQ(timed(id), 40) << id;
    EXPECT_EQ(cut(id), "") << id;
  }
  EXPECT_EQ(starts().back(), "00-base-drift");
}

TEST_F(ShortOfTime, RunsMakeFewerStepsSoThatThereAreThreeRounds) {
  run(within(120, {"a", "b"}));
  // Three rounds of three runs: 12 steps and a little for the starts fit into 114 s.
  EXPECT_THAT(timed("00-base-r1"), ::testing::AllOf(::testing::Ge(9), ::testing::Le(12)));
  EXPECT_EQ(cut("00-base-r1"), "time limit");
  // Then two rounds of 3 + n steps each, which is 15 less what has passed.
  EXPECT_THAT(timed("00-base-r2"), ::testing::AllOf(::testing::Ge(9), ::testing::Le(15)));
  for (const char* round : {"-r1", "-r2", "-r3"})
    for (const char* rung : {"01-a", "02-b"})
      EXPECT_EQ(timed(std::string(rung) + round), timed(std::string("00-base") + round))
          << "all runs of a round make equally many";
  EXPECT_THAT(finding(), Not(HasSubstr("o claim")));
  EXPECT_THAT(starts(), Not(Contains("00-base-drift")));
}

TEST_F(ShortOfTime, WhatIsWorthLeastIsLeftOut) {
  run(within(40, {"behind", "ahead"}));
  EXPECT_EQ(rounds_of("01-behind"), 1);
  EXPECT_GE(rounds_of("02-ahead"), 3);
  EXPECT_GE(rounds_of("00-base"), 3);
  EXPECT_THAT(finding(), HasSubstr("ahead gives the largest gain"));
  EXPECT_THAT(finding(), HasSubstr("No claim on behind (0.72x as fast as base in 1 round): about "));
  const std::string text = markdown(make_document(analyze(load_report(report()))), {});
  EXPECT_THAT(text, HasSubstr("The time limit was too short for 3 rounds of all rungs."));
  EXPECT_THAT(text, HasSubstr("gained least in the first rounds: behind."));
}

TEST_F(ShortOfTime, WhereNoClaimCanBeTheBestSeenIsNamed) {
  run(within(20, {"behind", "ahead"}));
  EXPECT_EQ(rounds_of("00-base"), 1);
  EXPECT_THAT(
      finding(),
      HasSubstr("No claim yet: a claim needs 3 rounds; best so far: ahead, 1.34x as fast as base in 1 "
                "round; about "));
  EXPECT_THAT(finding(), HasSubstr("more would decide (--resume --at-most "));
}

TEST_F(ShortOfTime, ResumeTakesACutRoundAsDoneAndFinishesItAlike) {
  run(within(120, {"a", "b"}));
  const int64_t steps = timed("00-base-r2");
  run(within(120, {"a", "b"}), resuming());
  EXPECT_THAT(starts(), IsEmpty());
  fs::remove(report() / "runs/02-b-r2/result.json");
  run(within(120, {"a", "b"}), resuming());
  EXPECT_THAT(starts(), ElementsAre("02-b-r2"));
  EXPECT_EQ(timed("02-b-r2"), steps);
}

TEST_F(ShortOfTime, WhatIsWantedWholeIsNotCut) {
  Experiment e = within(60, {"a"});
  e.target_loss = 0.5;
  run(e);
  EXPECT_EQ(timed("01-a-r1"), 40);
}

TEST_F(OpenRounds, ResumeGoesOnFromWhatIsStored) {
  run(open({"a", "noisy"}));
  const auto all = rounds_of("02-noisy");
  run(open({"a", "noisy"}), resuming());
  EXPECT_THAT(starts(), IsEmpty()) << "everything is narrow";
  // As if it had been interrupted in the fourth round.
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

TEST_F(OpenRounds, WhatFailsIsNotRunAgain) {
  run(open({"a", "failed"}));
  EXPECT_EQ(rounds_of("02-failed"), 1);
  EXPECT_EQ(rounds_of("01-a"), 6);
  EXPECT_FALSE(fs::exists(report() / "runs/02-failed-r2"));
  EXPECT_EQ(analyze(load_report(report())).missing_runs, 0U);
}

TEST_F(Controller, WhatIsStackedOnARefusedRungStandsOnTheOneBelow) {
  Experiment e = experiment({"a", "unplanned", "b", "c"});
  for (Rung& rung : e.parts[0].rungs)
    rung.settings = {{"train", {{"lr", 0.1 + 0.1 * (&rung - e.parts[0].rungs.data())}}}};
  e.parts[0].rungs[1].settings = {{"train", {{"warmup", 2}}}};
  run(e);
  EXPECT_THAT(starts(), ElementsAre("00-base-r1", "01-a-r1", "03-b-r1", "04-c-r1", "00-base-drift"));
  const Stored stored = load_report(report());
  EXPECT_EQ(stored.variants[3].previous, 1);
  EXPECT_EQ(stored.variants[3].spec.train.warmup, 3) << "without what was refused";
  EXPECT_EQ(stored.variants[4].previous, 3);
  const Analysis a = analyze(stored);
  EXPECT_EQ(a.rows[2].status, Status::failed);
  EXPECT_THAT(a.rows[3].notes,
              ::testing::Contains("it builds on 'a', because unplanned could not be stacked"));
  EXPECT_THAT(a.rows[4].notes, IsEmpty());
  run(e, resuming());
  EXPECT_THAT(starts(), IsEmpty()) << "the runs of the new stacks are no strangers";
}

TEST_F(Controller, OnlyStandsOnTheRungBelowARefusedOneToo) {
  Experiment e = experiment({"a", "unplanned", "b", "c"});
  for (Rung& rung : e.parts[0].rungs)
    rung.settings = {{"train", {{"lr", 0.1 + 0.1 * (&rung - e.parts[0].rungs.data())}}}};
  e.parts[0].rungs[1].settings = {{"train", {{"warmup", 2}}}};
  RunRequest only = request();
  only.only = {"b"};
  EXPECT_TRUE(run(e, only).all_ok) << "what it does not stand on is no failure of this run";
  EXPECT_THAT(starts(), ElementsAre("00-base-r1", "03-b-r1", "00-base-drift"));
  EXPECT_EQ(load_report(report()).variants.at(3).spec.train.warmup, 3);
  run(e, resuming());
  EXPECT_THAT(starts(), ElementsAre("01-a-r1", "04-c-r1"));
  only = resuming();
  only.only = {"a"};
  run(e, only);
  EXPECT_THAT(starts(), IsEmpty()) << "and runs above it stay what they are";
  EXPECT_FALSE(fs::exists(report() / "replaced"));
}

TEST_F(Controller, LooksAtTheMachineBetweenRounds) {
  RunRequest probing = request();
  probing.probe_s = 0.01;
  run(experiment({"a"}, 2), probing);
  const Stored stored = load_report(report());
  ASSERT_EQ(stored.noise.size(), 3U) << "before, between and after";
  EXPECT_EQ(stored.noise.back().round, 2);
  EXPECT_GT(stored.noise.front().median, 0);
  EXPECT_TRUE(stored.noise.front().before.contains("steal_ticks"));
  probing.resume = true;
  run(experiment({"a"}, 2), probing);
  EXPECT_EQ(load_report(report()).noise.size(), 3U) << "nothing was left to run";
}

TEST_F(Controller, FolderHoldsWhatTheReportReads) {
  run(experiment({"a"}));
  const Stored stored = load_report(report());
  EXPECT_EQ(stored.experiment.name, "fake");
  EXPECT_EQ(stored.variants.size(), 2);
  EXPECT_TRUE(stored.plans.at(1));
  EXPECT_EQ(stored.context.at("cpu").at("name"), "fake");
  EXPECT_FALSE(stored.context.at("host").get<std::string>().empty());
  EXPECT_EQ(stored.runs.size(), 3);
  EXPECT_TRUE(fs::exists(report() / "runs/01-a-r1/log.txt"));
}

TEST_F(Controller, EveryEndBecomesAStatus) {
  const auto outcome = run(
      experiment({"crash", "killed", "junk", "odd", "nothing", "exit3", "failed", "oom", "skip", "good"}));
  EXPECT_FALSE(outcome.all_ok);
  EXPECT_EQ(status("01-crash-r1"), "crashed");
  EXPECT_THAT(reason("01-crash-r1"), HasSubstr("SIGSEGV (segmentation fault), after step 1 of 13"));
  EXPECT_THAT(reason("01-crash-r1"), HasSubstr("the last words"));
  EXPECT_EQ(status("02-killed-r1"), to_string(testing::killed_by_hand().status));
  EXPECT_THAT(reason("02-killed-r1"), HasSubstr(testing::killed_by_hand().reason));
  EXPECT_EQ(result("02-killed-r1").at("cause"), "lost");
  EXPECT_EQ(status("03-junk-r1"), "crashed");
  EXPECT_THAT(reason("03-junk-r1"), HasSubstr("not valid JSON"));
  EXPECT_EQ(status("04-odd-r1"), "crashed");
  EXPECT_THAT(reason("04-odd-r1"), HasSubstr("unknown status 'splendid'"));
  EXPECT_EQ(status("05-nothing-r1"), "crashed");
  EXPECT_THAT(reason("05-nothing-r1"), HasSubstr("wrote no result"));
  EXPECT_EQ(status("06-exit3-r1"), "crashed");
  EXPECT_THAT(reason("06-exit3-r1"), HasSubstr("exit code 3"));
  EXPECT_EQ(status("07-failed-r1"), "failed");
  EXPECT_EQ(reason("07-failed-r1"), "no such layer");
  EXPECT_EQ(status("08-oom-r1"), "oom");
  EXPECT_EQ(result("08-oom-r1").at("requested_bytes"), 7);
  EXPECT_EQ(status("09-skip-r1"), "skipped");
  EXPECT_EQ(status("10-good-r1"), "ok");
}

TEST_F(Controller, WhatAMachineLacksIsNoFailure) { EXPECT_TRUE(run(experiment({"skip"})).all_ok); }

TEST_F(Controller, AResultCountsWhateverCameAfterIt) {
  EXPECT_TRUE(run(experiment({"late"})).all_ok);
  EXPECT_EQ(status("01-late-r1"), "ok");
  EXPECT_THAT(result("01-late-r1").at("notes").at(0), HasSubstr("SIGSEGV"));
}

TEST_F(Controller, TimeLimitIsTheSpecs) {
  auto e = experiment({"hang", "good"});
  e.parts[0].rungs[0].settings = {{"timeout_s", 3}};
  EXPECT_FALSE(run(e).all_ok);
  EXPECT_EQ(status("01-hang-r1"), "timeout");
  EXPECT_THAT(reason("01-hang-r1"), HasSubstr("did not end within 3.0 s"));
  EXPECT_EQ(status("02-good-r1"), "ok");
  EXPECT_TRUE(testing::ends(read_json(report() / "runs/01-hang-r1/child.json").get<pid_t>()));
}

TEST_F(Controller, ARungThatFailsAtFirstIsNotRunAgain) {
  run(experiment({"crash", "good"}, 3));
  EXPECT_THAT(starts(), ElementsAre("00-base-r1", "01-crash-r1", "02-good-r1", "00-base-r2", "02-good-r2",
                                    "00-base-r3", "02-good-r3", "00-base-drift"));
  EXPECT_EQ(status("01-crash-r3"), "skipped");
  EXPECT_EQ(reason("01-crash-r3"), "not run: round 1 ended as 'crashed'");
  EXPECT_THAT(events("skipped"), ElementsAre("01-crash-r2", "01-crash-r3"));
}

TEST_F(Controller, ARungThatFailsLaterGoesOn) {
  EXPECT_FALSE(run(experiment({"crash@2"}, 3)).all_ok);
  EXPECT_EQ(status("01-crash-2-r2"), "crashed");
  EXPECT_EQ(status("01-crash-2-r3"), "ok");
}

TEST_F(Controller, ABaseThatFailsDoesNotEndTheRest) {
  auto e = experiment({"good"}, 2);
  e.parts[0].rungs[0].settings = {{"timeout_s", 100.0}};
  // The base's name is fixed, so it is made to fail by its time limit.
  e.base.timeout_s = 0.001;
  run(e);
  EXPECT_EQ(status("00-base-r1"), "timeout");
  EXPECT_EQ(status("00-base-r2"), "skipped");
  EXPECT_EQ(status("01-good-r2"), "ok");
  EXPECT_FALSE(fs::exists(report() / "runs/00-base-drift"));
}

TEST_F(Controller, APlanThatFailsIsARow) {
  auto r = request();
  r.plan_timeout_s = 1;
  const auto outcome =
      run(experiment({"unplanned", "plancrash", "planhang", "planjunk", "good", "planskip"}, 2), r);
  EXPECT_FALSE(outcome.all_ok);
  EXPECT_THAT(starts(), ElementsAre("00-base-r1", "05-good-r1", "00-base-r2", "05-good-r2", "00-base-drift"));
  EXPECT_EQ(status("06-planskip-r1"), "skipped");
  EXPECT_EQ(reason("06-planskip-r1"), "plugin 'tf32' in apply: no GPU");
  EXPECT_EQ(status("01-unplanned-r1"), "failed");
  EXPECT_EQ(reason("01-unplanned-r1"), "x.lua:3: unknown option 'rnk'\n  hint: did you mean 'rank'?");
  EXPECT_EQ(status("02-plancrash-r1"), "crashed");
  EXPECT_THAT(reason("02-plancrash-r1"), HasSubstr("while planning: ended by SIGSEGV"));
  EXPECT_EQ(status("03-planhang-r1"), "timeout");
  EXPECT_EQ(status("04-planjunk-r1"), "failed");
  EXPECT_EQ(status("04-planjunk-r2"), "skipped");
  const Json plans = read_json(report() / "plans.json");
  EXPECT_TRUE(plans.at(3).is_null());
  EXPECT_FALSE(plans.at(5).is_null());
}

TEST_F(Controller, TheGatesRunsFollowTheFirstRound) {
  auto e = experiment({"doubled"}, 2);
  e.parts[0].rungs[0].settings = {{"train", {{"micro_batch", 8}}}};
  run(e);
  EXPECT_THAT(starts(), ElementsAre("00-base-r1", "01-doubled-r1", "01-doubled-reference", "00-base-r2",
                                    "01-doubled-r2", "00-base-drift"));
  EXPECT_EQ(read_json(report() / "runs/01-doubled-reference/spec.json").at("purpose"), "reference");
}

TEST_F(Controller, AReferenceThatRanOnceIsRepeatedWhereBitsDiffer) {
  // The second rung changes nothing, and its losses differ in the last digits.
  run(experiment({"plain", "jitter"}));
  EXPECT_THAT(starts(),
              ElementsAre("00-base-r1", "01-plain-r1", "02-jitter-r1", "01-plain-repeat", "00-base-drift"));
  EXPECT_EQ(analyze(load_report(report())).rows[2].status, Status::broken)
      << "the reference repeats its bits";
  run(experiment({"plain", "jitter"}, 2));
  EXPECT_THAT(starts(), ::testing::Not(::testing::Contains(HasSubstr("repeat")))) << "its rounds show it";
}

TEST_F(Controller, OnlyKeepsTheBaseAndTheStacking) {
  auto e = experiment({"first", "second"}, 2);
  e.parts[0].rungs[0].settings = {{"train", {{"lr", 0.5}}}};
  auto r = request();
  r.only = {"second"};
  EXPECT_TRUE(run(e, r).all_ok);
  EXPECT_THAT(starts(), ::testing::Each(::testing::Not(HasSubstr("first"))));
  EXPECT_EQ(read_json(report() / "runs/02-second-r2/spec.json").at("train").at("lr"), 0.5);
  EXPECT_EQ(status("00-base-r1"), "ok");
  r.only = {"secnod"};
  EXPECT_THAT(error_of([&] { run(e, r); }), HasSubstr("did you mean 'second'?"));
}

TEST_F(Controller, LocalIsReplacedAndLabelsAreKept) {
  auto e = experiment({"a", "b"});
  run(e);
  write_file(report() / "notes.md", "of the user");
  run(experiment({"c"}));
  EXPECT_FALSE(fs::exists(report() / "runs/02-b-r1"));
  EXPECT_EQ(starts().size(), 3);
  EXPECT_TRUE(fs::exists(report() / "notes.md"));
  e.label = "kept";
  run(e);
  EXPECT_THAT(error_of([&] { run(e); }), HasSubstr("--resume"));
  EXPECT_TRUE(fs::exists(report("kept") / "runs/02-b-r1/result.json"));
}

TEST_F(Controller, WhatWasTrainedIsNotReplacedByMistake) {
  run(experiment({"a"}));
  fs::create_directories(report() / "runs/00-base-r1/state");
  run(experiment({"a"}));
  write_file(report() / "runs/00-base-r1/state/state.json", "{}");
  EXPECT_THAT(error_of([&] { run(experiment({"a"})); }),
              AllOf(HasSubstr("contains a saved state"), HasSubstr("00-base-r1/state")));
  EXPECT_TRUE(run(experiment({"a"}), resuming()).all_ok);
}

TEST_F(Controller, NamesThatAreNoFoldersAreRefused) {
  for (const char* name : {"", "..", "a/b", ".hidden", "a b"}) {
    auto e = experiment({});
    e.label = name;
    EXPECT_THAT(error_of([&] { run(e); }), HasSubstr("not a valid folder name")) << name;
  }
}

TEST_F(Controller, AFolderHasOneConductor) {
  const FolderLock held(report());
  EXPECT_THAT(error_of([&] { run(experiment({})); }), HasSubstr("another optrush process"));
}

TEST_F(Controller, AMissingWorkerIsNamed) {
  auto r = request();
  r.worker = folder_ / "no-worker";
  EXPECT_THAT(error_of([&] { run(experiment({}), r); }), HasSubstr("no-worker"));
}

TEST_F(Controller, ResumeOfAWholeReportRunsNothing) {
  run(experiment({"a", "crash"}, 2));
  const std::string before = read_file(report() / "runs/01-a-r1/result.json");
  EXPECT_FALSE(run(experiment({"a", "crash"}, 2), resuming()).all_ok)
      << "what failed before is still not well";
  EXPECT_THAT(starts(), IsEmpty());
  EXPECT_EQ(read_file(report() / "runs/01-a-r1/result.json"), before);
}

TEST_F(Controller, ResumeRunsWhatIsMissing) {
  run(experiment({"a", "b"}, 2));
  fs::remove(report() / "runs/01-a-r2/result.json");
  fs::remove_all(report() / "runs/02-b-r1");
  run(experiment({"a", "b"}, 2), resuming());
  EXPECT_THAT(starts(), ElementsAre("02-b-r1", "01-a-r2"));
}

TEST_F(Controller, ResumeAddsRounds) {
  run(experiment({"a"}, 1));
  run(experiment({"a"}, 2), resuming());
  EXPECT_THAT(starts(), ElementsAre("00-base-r2", "01-a-r2", "00-base-drift"));
}

TEST_F(Controller, ResumeRunsChangedSpecsAgain) {
  auto e = experiment({"a", "b"});
  run(e);
  e.parts[0].rungs[1].settings = {{"train", {{"lr", 0.5}}}};
  run(e, resuming());
  EXPECT_THAT(starts(), ElementsAre("02-b-r1"));
  EXPECT_TRUE(fs::exists(report() / "replaced/02-b-r1/result.json"));
}

TEST_F(Controller, ResumeSetsAsideWhatIsNoLongerPartOfTheExperiment) {
  run(experiment({"a", "b"}, 2));
  run(experiment({"renamed"}, 1), resuming());
  EXPECT_THAT(starts(), ElementsAre("01-renamed-r1", "00-base-drift"));
  EXPECT_EQ(load_report(report()).runs.size(), 3);
}

TEST_F(Controller, ResumeAfterAPluginChangedRunsItAgain) {
  write_file(folder_ / "plugin.so", "one");
  setenv("FAKE_PLUGIN", (folder_ / "plugin.so").c_str(), 1);
  const auto e = experiment({"plugin", "other"});
  run(e);
  run(e, resuming());
  EXPECT_THAT(starts(), IsEmpty());
  write_file(folder_ / "plugin.so", "two");
  run(e, resuming());
  EXPECT_THAT(starts(), ElementsAre("01-plugin-r1"));
}

TEST_F(Controller, ResumeReadsPluginsAndResultsOnce) {
  fs::create_directory(folder_ / "plugins");
  write_file(folder_ / "plugins/plugin.so", "one");
  setenv("FAKE_PLUGIN", (folder_ / "plugins/plugin.so").c_str(), 1);
  const auto e = experiment({"plugin"}, 3);
  run(e);
  testing::Opens plugins(folder_ / "plugins"), results(report() / "runs/01-plugin-r2");
  run(e, resuming());
  EXPECT_THAT(starts(), IsEmpty());
  EXPECT_EQ(plugins.of("plugin.so"), 1);
  EXPECT_EQ(results.of("result.json"), 2) << "to see that it is done, and for the gate";
}

TEST_F(Controller, ResumeAfterDataChangedRunsItAgain) {
  write_file(folder_ / "text.txt", "one");
  auto e = experiment({"a", "b"});
  e.base =
      merged(e.base, {{"data", {{"kind", "text"}, {"path", (folder_ / "text.txt").string()}}}}, "fixture");
  RunRequest only = request();
  only.only = {"a"};
  run(e, only);
  run(e, resuming());
  EXPECT_THAT(starts(), ElementsAre("02-b-r1"));
  write_file(folder_ / "text.txt", "another text");
  run(e, resuming());
  EXPECT_THAT(starts(), ElementsAre("00-base-r1", "01-a-r1", "02-b-r1", "00-base-drift"));
}

TEST_F(Controller, ResumeKeepsWhatCannotBePlannedNow) {
  const fs::path checkpoint = folder_ / "model.safetensors";
  setenv("FAKE_CHECKPOINT", checkpoint.c_str(), 1);
  write_file(checkpoint, "weights");
  run(experiment({"checkpoint", "b"}, 2));
  fs::remove(checkpoint);
  EXPECT_FALSE(run(experiment({"checkpoint", "b"}, 3), resuming()).all_ok);
  EXPECT_THAT(starts(), ElementsAre("00-base-r3", "02-b-r3", "00-base-drift"));
  const Analysis a = analyze(load_report(report()));
  EXPECT_EQ(a.rows.at(1).status, Status::ok) << a.rows.at(1).reason;
  EXPECT_EQ(a.rows.at(1).rounds.size(), 2U);
  EXPECT_EQ(a.missing_runs, 1U);
  write_file(checkpoint, "weights");
  EXPECT_TRUE(run(experiment({"checkpoint", "b"}, 3), resuming()).all_ok);
  EXPECT_THAT(starts(), ElementsAre("01-checkpoint-r3"));
}

TEST_F(Controller, OnlyWithResumeKeepsThePlansOfTheOthers) {
  run(experiment({"a", "b"}));
  const Json before = read_json(report() / "plans.json");
  ASSERT_TRUE(before.at(2).is_object());
  RunRequest only = resuming();
  only.only = {"a"};
  run(experiment({"a", "b"}, 2), only);
  EXPECT_EQ(read_json(report() / "plans.json"), before);
  Experiment changed = experiment({"a", "b"}, 2);
  changed.parts[0].rungs[1].settings = {{"train", {{"lr", 0.5}}}};
  run(changed, only);
  EXPECT_TRUE(read_json(report() / "plans.json").at(2).is_null()) << "that was another rung's";
}

TEST_F(Controller, TheProgressMayBeReadByNobody) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  Progress progress(Terminal{.fd = ends[1]});
  EXPECT_TRUE(run_experiment(Expanded(experiment({"a"})), request(), progress).all_ok);
  close(ends[1]);
  EXPECT_EQ(status("01-a-r1"), "ok");
}

TEST_F(Controller, RunsOfTwoBuildsAreSaidToBeThat) {
  run(experiment({"a"}));
  const fs::path file = report() / "context.json";
  Json context = read_json(file);
  context["commit"] = "of-yesterday";
  Journal(report()).write("context.json", context);
  run(experiment({"a", "b"}), resuming());
  run(experiment({"a", "b"}), resuming());
  const Json warnings = read_json(file).at("warnings");
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings.at(0).get<std::string>(), HasSubstr("different builds of optrush"));
  EXPECT_THAT(warnings.at(0).get<std::string>(), HasSubstr("of-yesterday"));
}

TEST_F(Controller, ResumeKeepsTheNumberOfThreads) {
  run(experiment({"a"}));
  setenv("FAKE_THREADS", "1", 1);
  EXPECT_THAT(error_of([&] { run(experiment({"b"}), resuming()); }),
              HasSubstr("CPU threads '2' there, '1' here"));
  unsetenv("FAKE_THREADS");
}

TEST_F(Controller, ResumeKeepsTheArguments) {
  auto e = experiment({"a"});
  e.arguments = {{"layers", 4}};
  run(e);
  e.arguments = {{"layers", 4}, {"new", true}};
  run(e, resuming());
  EXPECT_THAT(starts(), IsEmpty()) << "the script reads one more";
  e.arguments["layers"] = 8;
  EXPECT_THAT(error_of([&] { run(e, resuming()); }), HasSubstr("started with layers = 4, not 8"));
  EXPECT_EQ(load_report(report()).experiment.arguments.at("layers"), 4);
}

TEST_F(Controller, ResumeStaysOnTheMachine) {
  run(experiment({"a"}));
  setenv("FAKE_CPU", "another", 1);
  EXPECT_THAT(error_of([&] { run(experiment({"b"}), resuming()); }),
              HasSubstr("CPU 'fake' there, 'another' here"));
  EXPECT_EQ(load_report(report()).variants.at(1).name, "a") << "a refused resume changes nothing";
}

TEST_F(Controller, AMachineWhoseDescriptionWasChangedIsLookedAtAgain) {
  run(experiment({"a"}));
  const fs::path context = report() / "context.json";
  std::string content = read_file(context);
  content.replace(content.find("\"fake\""), 6, "\"fame\"");
  write_file(context, content);
  EXPECT_THAT(error_of([&] { load_report(report()); }),
              AllOf(HasSubstr("context.json"), HasSubstr("changed after it was written")));
  run(experiment({"a"}), resuming());
  EXPECT_THAT(starts(), IsEmpty());
  EXPECT_EQ(load_report(report()).context.at("cpu").at("name"), "fake");
}

TEST_F(Controller, ATornJournalIsPassedOver) {
  run(experiment({"a"}));
  const fs::path journal = report() / "journal.jsonl";
  const std::string whole = read_file(journal);
  // Torn in the middle of the line that says that 01-a-r1 was started.
  const size_t start = whole.find("01-a-r1");
  write_file(journal, whole.substr(0, start + 3));
  run(experiment({"a"}), resuming());
  EXPECT_THAT(starts(), ElementsAre("01-a-r1", "00-base-drift"));
  run(experiment({"a"}), resuming());
  EXPECT_THAT(starts(), IsEmpty()) << "the line after the torn one was not read";
}

class Restarts : public Controller {
 protected:
  static Experiment saving(const std::vector<std::string>& rungs, int64_t rounds = 1) {
    Experiment e = experiment(rungs, rounds);
    e.max_restarts = 2;
    e.base.save.every = 5;
    return e;
  }
};

TEST_F(Restarts, AFaultStartsARunAgainWhichATooOftenLostOneEnds) {
  EXPECT_FALSE(run(saving({"crash", "exit3", "good"})).all_ok);
  EXPECT_THAT(starts(), ElementsAre("00-base-r1", "01-crash-r1", "01-crash-r1", "01-crash-r1", "02-exit3-r1",
                                    "02-exit3-r1", "02-exit3-r1", "03-good-r1"));
  EXPECT_EQ(status("01-crash-r1"), "crashed");
  EXPECT_EQ(events("restarted"),
            (std::vector<std::string>{"01-crash-r1", "01-crash-r1", "02-exit3-r1", "02-exit3-r1"}));
  EXPECT_THAT(result("01-crash-r1").at("notes"),
              Contains(AllOf(HasSubstr("started again 2 times"), HasSubstr("made 2 steps again"))))
      << "each had made one step";
  EXPECT_EQ(analyze(load_report(report())).missing_runs, 0) << "the sum of the noted result is the journal's";
}

TEST_F(Restarts, WhatARunSaysOfItselfIsNoFault) {
  run(saving({"failed", "oom", "skip"}));
  EXPECT_EQ(starts().size(), 4);
  EXPECT_THAT(events("restarted"), IsEmpty());
}

TEST_F(Restarts, OnlyRunsThatSaveStartAgain) {
  run(saving({"crash@2"}, 2));
  EXPECT_THAT(events("restarted"), IsEmpty()) << "later rounds save no state";
  EXPECT_EQ(status("01-crash-2-r2"), "crashed");
}

TEST_F(Controller, AnInterruptKeepsWhatIsDone) {
  const auto e = experiment({"slow", "b"});
  // The signal comes once the slow run is under way; this process has one more thread than it, so it is sent
  // to itself.
  std::thread interrupter;
  {
    sigset_t held;
    sigemptyset(&held);
    sigaddset(&held, SIGINT);
    pthread_sigmask(SIG_BLOCK, &held, nullptr);
    interrupter = std::thread([&] {
      while (starts().size() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      kill(getpid(), SIGINT);
    });
  }
  const auto outcome = run(e);
  interrupter.join();
  EXPECT_EQ(outcome.signal, SIGINT);
  EXPECT_EQ(status("00-base-r1"), "ok");
  EXPECT_FALSE(fs::exists(report() / "runs/01-slow-r1/result.json"));
  EXPECT_FALSE(fs::exists(report() / "runs/02-b-r1"));
  EXPECT_EQ(events("interrupted").size(), 1);
  EXPECT_EQ(analyze(load_report(report())).missing_runs, 2);
}
}  // namespace
}  // namespace optrush
