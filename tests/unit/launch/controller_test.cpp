// The runs of an experiment: their order, their ends, and their files in the report's folder.
#include <gmock/gmock.h>

#include <unistd.h>
#include <chrono>
#include <csignal>
#include <thread>

#include "ends.h"
#include "fixture.h"
#include "launch/controller.h"
#include "launch/folder.h"

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

class Controller : public testing::Launch {};

TEST_F(Controller, RoundsAreInterleavedAndTheBaseRunsAgainAtTheEnd) {
  const auto outcome = run(experiment({"a", "b"}, 3));
  EXPECT_TRUE(outcome.all_ok);
  EXPECT_EQ(outcome.signal, 0);
  EXPECT_THAT(starts(), ElementsAre("00-base-r1", "01-a-r1", "02-b-r1", "00-base-r2", "01-a-r2", "02-b-r2",
                                    "00-base-r3", "01-a-r3", "02-b-r3", "00-base-drift"));
  EXPECT_EQ(events("started"), starts());
  EXPECT_EQ(events("finished"), starts());
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
  EXPECT_FALSE(without_b.previous.speed->same_run)
      << "the full stack shares the run of b, and this row the run of a";
  run(e, resuming());
  EXPECT_THAT(starts(), IsEmpty());
}

TEST_F(Controller, OnlyRunsTheVariantThatHasTheRunsOfAnEqualStack) {
  RunRequest only = request();
  only.only = {"full"};
  run(ladder_and_ablation(experiment({})), only);
  EXPECT_THAT(starts(), ElementsAre("00-base-r1", "02-b-r1", "00-base-drift"));
  EXPECT_TRUE(analyze(load_report(report())).rows.at(3).ok());
}

TEST_F(Controller, EqualStackHasTheFailureOfTheOneThatRan) {
  Experiment e = ladder_and_ablation(experiment({}));
  for (auto& part : e.parts) part.rungs[1].name = "crash b";
  EXPECT_FALSE(run(e).all_ok);
  const Analysis a = analyze(load_report(report()));
  EXPECT_EQ(a.rows.at(3).status, Status::crashed);
  EXPECT_EQ(a.rows.at(3).reason, a.rows.at(2).reason);
}

TEST_F(Controller, RungAboveARefusedOneBuildsOnTheOneBelow) {
  Experiment e = experiment({"a", "unplanned", "b", "c"});
  for (Rung& rung : e.parts[0].rungs)
    rung.settings = {{"train", {{"lr", 0.1 + 0.1 * (&rung - e.parts[0].rungs.data())}}}};
  e.parts[0].rungs[1].settings = {{"train", {{"warmup", 2}}}};
  run(e);
  EXPECT_THAT(starts(), ElementsAre("00-base-r1", "01-a-r1", "03-b-r1", "04-c-r1", "00-base-drift"));
  const Stored stored = load_report(report());
  EXPECT_EQ(stored.variants[3].previous, 1);
  EXPECT_EQ(stored.variants[3].spec.train.warmup, 3) << "the refused rung's settings are left out";
  EXPECT_EQ(stored.variants[4].previous, 3);
  const Analysis a = analyze(stored);
  EXPECT_EQ(a.rows[2].status, Status::failed);
  EXPECT_THAT(a.rows[3].notes,
              ::testing::Contains("it builds on 'a', because unplanned could not be stacked"));
  EXPECT_THAT(a.rows[4].notes, IsEmpty());
  run(e, resuming());
  EXPECT_THAT(starts(), IsEmpty()) << "the runs of the new stacks count as known";
}

TEST_F(Controller, OnlyAlsoBuildsOnTheRungBelowARefusedOne) {
  Experiment e = experiment({"a", "unplanned", "b", "c"});
  for (Rung& rung : e.parts[0].rungs)
    rung.settings = {{"train", {{"lr", 0.1 + 0.1 * (&rung - e.parts[0].rungs.data())}}}};
  e.parts[0].rungs[1].settings = {{"train", {{"warmup", 2}}}};
  RunRequest only = request();
  only.only = {"b"};
  EXPECT_TRUE(run(e, only).all_ok) << "a failed rung that this one does not build on is no failure";
  EXPECT_THAT(starts(), ElementsAre("00-base-r1", "03-b-r1", "00-base-drift"));
  EXPECT_EQ(load_report(report()).variants.at(3).spec.train.warmup, 3);
  run(e, resuming());
  EXPECT_THAT(starts(), ElementsAre("01-a-r1", "04-c-r1"));
  only = resuming();
  only.only = {"a"};
  run(e, only);
  EXPECT_THAT(starts(), IsEmpty()) << "runs of later rungs are kept";
  EXPECT_FALSE(fs::exists(report() / "replaced"));
}

TEST_F(Controller, MeasuresTheMachineBetweenRounds) {
  RunRequest probing = request();
  probing.probe_s = 0.01;
  run(experiment({"a"}, 2), probing);
  const Stored stored = load_report(report());
  ASSERT_EQ(stored.probes.size(), 3U) << "measured before, between and after the runs";
  EXPECT_EQ(stored.probes.back().round, 2);
  EXPECT_GT(stored.probes.front().median, 0);
  EXPECT_TRUE(stored.probes.front().before.contains("steal_ticks"));
  probing.resume = true;
  run(experiment({"a"}, 2), probing);
  EXPECT_EQ(load_report(report()).probes.size(), 3U) << "there was nothing to run";
}

TEST_F(Controller, NewReportRemovesOnlyFilesOfTheOldOne) {
  run(experiment({"a"}, 2));
  const std::vector<std::string> others = {"mine.svg",
                                           "loss.svg",
                                           "notes.tmp",
                                           "notes.12.tmp",
                                           "backup.tmp/kept.txt",
                                           "report.md.13.tmp/kept.txt",
                                           "runs/00-base-r1/work.tmp",
                                           "live.md"};
  const std::vector<std::string> own = {"speed.svg", "report.md.12.tmp", "speed.svg.12.tmp",
                                        "runs/00-base-r1/result.json.7.tmp"};
  for (const auto& file : others) write_file(report() / file, "theirs");
  for (const auto& file : own) write_file(report() / file, "ours");
  write_file(report() / "report.md", "![speed](speed.svg)\n[loss](loss.svg)\n");
  std::vector<std::string> warnings;
  Experiment next = experiment({"a"});
  EXPECT_EQ(begun_report(report(), next, /*resume=*/false, warnings), report());
  for (const auto& file : others) EXPECT_TRUE(fs::exists(report() / file)) << file;
  for (const auto& file : own) EXPECT_FALSE(fs::exists(report() / file)) << file;
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0], AllOf(HasSubstr("replaces the report of 2 rounds"), HasSubstr("one of 1 round;")));
  run(next);
  begun_report(report(), experiment({"a"}, 2), false, warnings);
  EXPECT_EQ(warnings.size(), 1U) << "it has more rounds";
}

TEST_F(Controller, NewReportNamesTheOtherScriptWhoseReportItReplaces) {
  Experiment first = experiment({"a"}), second = first;
  first.script = "/one/fake.lua";
  second.script = "/two/fake.lua";
  std::vector<std::string> warnings;
  run(first);
  begun_report(report(), first, /*resume=*/false, warnings);
  EXPECT_THAT(warnings, IsEmpty()) << "it is the same script";
  run(first);
  begun_report(report(), second, /*resume=*/false, warnings);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0], AllOf(HasSubstr("replaces the report of 1 round of '/one/fake.lua' in"),
                                 Not(HasSubstr("by one of"))));
}

TEST_F(Controller, FolderHasEverythingThatTheReportReads) {
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
  EXPECT_THAT(reason("04-odd-r1"), HasSubstr("field 'status' must be one of 'ok'"));
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

TEST_F(Controller, MissingHardwareIsNotAFailure) { EXPECT_TRUE(run(experiment({"skip"})).all_ok); }

TEST_F(Controller, ResultCountsDespiteALaterCrash) {
  EXPECT_TRUE(run(experiment({"late"})).all_ok);
  EXPECT_EQ(status("01-late-r1"), "ok");
  EXPECT_THAT(result("01-late-r1").at("notes").at(0), HasSubstr("SIGSEGV"));
}

TEST_F(Controller, TimeLimitComesFromTheSpec) {
  auto e = experiment({"hang", "good"});
  e.parts[0].rungs[0].settings = {{"timeout_s", 3}};
  EXPECT_FALSE(run(e).all_ok);
  EXPECT_EQ(status("01-hang-r1"), "timeout");
  EXPECT_THAT(reason("01-hang-r1"), HasSubstr("did not end within 3.0 s"));
  EXPECT_EQ(status("02-good-r1"), "ok");
  EXPECT_TRUE(testing::ends(read_json(report() / "runs/01-hang-r1/child.json").get<pid_t>()));
}

TEST_F(Controller, RungThatFailsInTheFirstRoundIsNotRunAgain) {
  run(experiment({"crash", "good"}, 3));
  EXPECT_THAT(starts(), ElementsAre("00-base-r1", "01-crash-r1", "02-good-r1", "00-base-r2", "02-good-r2",
                                    "00-base-r3", "02-good-r3", "00-base-drift"));
  EXPECT_EQ(status("01-crash-r3"), "skipped");
  EXPECT_EQ(reason("01-crash-r3"), "not run: round 1 ended as 'crashed'");
  EXPECT_THAT(events("skipped"), ElementsAre("01-crash-r2", "01-crash-r3"));
}

TEST_F(Controller, RungThatFailsInALaterRoundContinues) {
  EXPECT_FALSE(run(experiment({"crash@2"}, 3)).all_ok);
  EXPECT_EQ(status("01-crash-2-r2"), "crashed");
  EXPECT_EQ(status("01-crash-2-r3"), "ok");
}

TEST_F(Controller, ABaseThatFailsDoesNotEndTheRest) {
  setenv("FAKE_BASE", "crash", 1);
  run(experiment({"good"}, 2));
  unsetenv("FAKE_BASE");
  EXPECT_EQ(status("00-base-r1"), "crashed");
  EXPECT_EQ(status("00-base-r2"), "skipped");
  EXPECT_EQ(status("01-good-r2"), "ok");
  EXPECT_FALSE(fs::exists(report() / "runs/00-base-drift"));
}

TEST_F(Controller, FailedPlanIsARow) {
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

TEST_F(Controller, GateRunsFollowTheFirstRound) {
  auto e = experiment({"doubled"}, 2);
  e.parts[0].rungs[0].settings = {{"train", {{"micro_batch", 8}}}};
  run(e);
  EXPECT_THAT(starts(), ElementsAre("00-base-r1", "01-doubled-r1", "01-doubled-reference", "00-base-r2",
                                    "01-doubled-r2", "00-base-drift"));
  EXPECT_EQ(read_json(report() / "runs/01-doubled-reference/spec.json").at("purpose"), "reference");
}

TEST_F(Controller, ReferenceThatRanOnceIsRepeatedIfBitsDiffer) {
  // The second rung keeps the function. Its losses differ in the last digits.
  run(experiment({"plain", "jitter"}));
  EXPECT_THAT(starts(),
              ElementsAre("00-base-r1", "01-plain-r1", "02-jitter-r1", "01-plain-repeat", "00-base-drift"));
  EXPECT_EQ(analyze(load_report(report())).rows[2].status, Status::broken)
      << "the reference repeats its bits";
  run(experiment({"plain", "jitter"}, 2));
  EXPECT_THAT(starts(), ::testing::Not(::testing::Contains(HasSubstr("repeat"))))
      << "several rounds need no repeat";
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

TEST_F(Controller, LocalReportIsReplacedAndLabelledOnesAreKept) {
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

TEST_F(Controller, SavedStatesAreNotReplacedByMistake) {
  run(experiment({"a"}));
  fs::create_directories(report() / "runs/00-base-r1/state");
  run(experiment({"a"}));
  write_file(report() / "runs/00-base-r1/state/state.json", "{}");
  EXPECT_THAT(error_of([&] { run(experiment({"a"})); }),
              AllOf(HasSubstr("contains a saved state"), HasSubstr("00-base-r1/state")));
  EXPECT_TRUE(run(experiment({"a"}), resuming()).all_ok);
}

TEST_F(Controller, NamesThatAreNotFolderNamesAreRefused) {
  for (const char* name : {"", "..", "a/b", ".hidden", "a b"}) {
    auto e = experiment({});
    e.label = name;
    EXPECT_THAT(error_of([&] { run(e); }), HasSubstr("not a valid folder name")) << name;
  }
}

TEST_F(Controller, FolderHasOneController) {
  const Descriptor held = lock_folder(report());
  EXPECT_THAT(error_of([&] { run(experiment({})); }), HasSubstr("another optrush process"));
}

TEST_F(Controller, AMissingWorkerIsNamed) {
  auto r = request();
  r.worker = folder_ / "no-worker";
  EXPECT_THAT(error_of([&] { run(experiment({}), r); }), HasSubstr("no-worker"));
}

TEST_F(Controller, ProgressWithoutAReaderIsNoError) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  Progress progress(Terminal{.fd = ends[1]});
  EXPECT_TRUE(run_experiment(Expanded(experiment({"a"})), request(), progress).all_ok);
  close(ends[1]);
  EXPECT_EQ(status("01-a-r1"), "ok");
}

TEST_F(Controller, InterruptKeepsFinishedRuns) {
  const auto e = experiment({"slow", "b"});
  // The signal comes while the slow run is under way. This process has another thread, so the signal goes to
  // the whole process.
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
